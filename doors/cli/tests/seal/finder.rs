//! Modules, data and metadata in an application are found as on a disk.

use crate::application::application;

#[test]
fn files_beside_modules_are_opened_by_their_paths() {
    let code = "
import os, shop, io, pathlib
folder = os.path.dirname(shop.__file__)
path = os.path.join(folder, 'data', 'prices.txt')
print(open(path).read(), os.path.exists(path), os.path.isdir(folder), os.path.exists(folder + '/none'), end='')
print(sorted(os.listdir(folder)), [(one.name, one.is_dir()) for one in os.scandir(folder + '/data')])
print(pathlib.Path(path).stat().st_size, os.access(path, os.R_OK), os.access(path, os.W_OK), os.path.realpath(folder + '/../shop/data') == folder + '/data')
print([sorted(files) for _, _, files in os.walk(folder)])
for work in (lambda: open(path, 'w'), lambda: open(folder), lambda: open(folder + '/none'), lambda: os.listdir(path), lambda: os.mkdir(folder + '/new')):
    try:
        work()
    except OSError as error:
        print(type(error).__name__, error.errno)
import mmap
with open(path, 'rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
    print(view[:6], os.fstat(file.fileno()).st_size)
";
    let said = application().says(code);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "apples 3");
    assert_eq!(lines[1], " True True False['__init__.py', 'data'] [('prices.txt', False)]");
    assert_eq!(lines[2], "9 True False True");
    assert_eq!(lines[3], "[['__init__.py'], ['prices.txt']]");
    assert_eq!(
        lines[4..9],
        [
            "OSError 30",
            "IsADirectoryError 21",
            "FileNotFoundError 2",
            "NotADirectoryError 20",
            "FileNotFoundError 2"
        ]
    );
    assert_eq!(lines[9], "b'apples' 9");
}

#[test]
fn resources_and_metadata_are_found() {
    let code = "
import importlib.metadata as metadata, importlib.resources as resources, inspect, pkgutil, shop
print(resources.files(shop).joinpath('data/prices.txt').read_text().strip(), pkgutil.get_data('shop', 'data/prices.txt'))
print(metadata.version('shop'), [point.value for point in metadata.distribution('shop').entry_points])
print(inspect.getsource(shop.price).splitlines()[0], [found.name for found in pkgutil.iter_modules(shop.__path__)], shop.__doc__)
print('shop' in [found.name for found in pkgutil.iter_modules()], 'program' in [found.name for found in pkgutil.iter_modules()])
";
    let said = application().says(code);
    assert_eq!(
        said,
        "apples 3 b'apples 3\\n'\n1.2 ['shop:price']\ndef price(): [] Sells.\nTrue True\n"
    );
}

#[test]
fn a_module_that_is_not_inside_is_named_with_the_way_to_add_it() {
    let code = "
import importlib.util
print(importlib.util.find_spec('pandas'))
try:
    import pandas
except ModuleNotFoundError as error:
    print(error.name, error)
";
    let said = application().says(code);
    assert!(
        said.starts_with("None\npandas No module named 'pandas'") && said.contains("--with pandas"),
        "{said}"
    );
}

#[test]
fn modules_of_the_start_have_code_and_sources_as_others() {
    let code = "
import encodings, encodings.utf_8, importlib, inspect
for module in (encodings, encodings.utf_8):
    loader = module.__loader__
    print(loader.get_code(module.__name__).co_filename, len(inspect.getsource(module)) > 500)
    print(importlib.reload(module) is module, loader.get_source(module.__name__) == open(module.__file__).read())
";
    let said = application().says(code);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].ends_with("/encodings/__init__.py True"), "{said}");
    assert!(lines[2].ends_with("/encodings/utf_8.py True"), "{said}");
    assert_eq!([lines[1], lines[3]], ["True True"; 2], "{said}");
}

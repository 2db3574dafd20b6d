//! `inspect` knows where modules come from, and notes most of them without asking for the status of each folder on their ways.

mod pythons;

use hydrozoa::Session;
use pythons::builders;

/// Modules in a package, one of them in a folder that is a link. `inspect` and a copy of it that runs under another name are asked for
/// the module of a code object, which has them note the files of all modules. Calls of `realpath` are counted.
const NOTED: &str = r#"
import importlib.util, inspect, os, posixpath, sys, tempfile

folder = os.path.realpath(tempfile.mkdtemp())
os.makedirs(folder + "/noted_package/real")
os.symlink("real", folder + "/noted_package/linked")
for place in ("", "real/"):
    for name in ("__init__", "one", "two"):
        open(f"{folder}/noted_package/{place}{name}.py", "w").close()
sys.path[:0] = [folder, folder + "/noted_package/../noted_package/real"]

def asked(inspect, module):
    code = compile("", module.__file__, "exec")
    count = 0
    def profile(frame, event, _):
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "realpath" and frame.f_globals is posixpath.__dict__
    sys.setprofile(profile)
    try:
        found = inspect.getmodule(code)
    finally:
        sys.setprofile(None)
    return found, count

spec = importlib.util.spec_from_file_location("stock", inspect.__file__)
stock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stock)
assert stock.getmodule.__globals__["__name__"] == "stock"

def compared(module):
    (found, ours), (expected, plain) = asked(inspect, module), asked(stock, module)
    assert found is expected is module, (found, expected, module)
    assert inspect._filesbymodname == stock._filesbymodname
    assert inspect.modulesbyfile == stock.modulesbyfile
    assert type(inspect.modulesbyfile) is type(inspect._filesbymodname) is dict
    return ours, plain

# All modules until now.
compared(os)
import noted_package.one, noted_package.two
assert compared(noted_package.two) == (0, 3)
import noted_package.linked.one
# The package in the linked folder, and its module.
assert compared(noted_package.linked.one) == (2, 2)
# So many that the table of modules becomes a larger one, without the gaps that imports have left.
for number in range(700):
    open(f"{folder}/many_{number}.py", "w").close()
    importlib.import_module(f"many_{number}")
    if number % 100 == 99:
        assert compared(sys.modules[f"many_{number}"]) == (0, 100)
linked = os.path.realpath(noted_package.linked.one.__file__)
assert "linked" not in linked and inspect.modulesbyfile[linked] == "noted_package.linked.one"
# Its file has a path that is not normal.
import two
assert compared(two)[0] == 1 and inspect.modulesbyfile[folder + "/noted_package/real/two.py"] == "two"
# A module whose file goes elsewhere, and one that comes back.
two.__file__ = noted_package.one.__file__
assert compared(noted_package.one)[0] == 0
del sys.modules["noted_package.one"]
import noted_package.one as again
again.__file__ = "/nowhere/again.py"
assert inspect.getmodule(compile("", "/nowhere/again.py", "exec")) is again
"#;

/// Tests replace functions of `inspect` and of `os.path`, and torch.package replaces `inspect.getfile`.
const REPLACED: &str = r#"
import inspect, os, sys, tempfile, types
from unittest import mock

folder = os.path.realpath(tempfile.mkdtemp())

def new(name, file=None):
    module = types.ModuleType(name)
    module.__file__ = file or f"{folder}/{name}.py"
    open(f"{folder}/{name}.py", "w").close()
    sys.modules[name] = module
    return module, compile("", module.__file__, "exec")

def noted(name):
    return [file for file, module in inspect.modulesbyfile.items() if module == name]

inspect.getmodule(new("replaced_first")[1])
with mock.patch("os.path.realpath", side_effect=lambda path: path + "?") as realpath:
    module, code = new("replaced_realpath")
    assert inspect.getmodule(code) is module
    realpath.assert_called_with(module.__file__)
assert noted("replaced_realpath") == [module.__file__ + "?", module.__file__] or noted("replaced_realpath") == [
    module.__file__, module.__file__ + "?"]
with mock.patch("inspect.getabsfile", side_effect=lambda thing, name=None: "/elsewhere.py"):
    module, code = new("replaced_getabsfile")
    assert inspect.getmodule(code) is module
assert noted("replaced_getabsfile") == ["/elsewhere.py"]

original = inspect.getfile
def getfile(thing):
    if isinstance(thing, types.ModuleType) and thing.__name__ == "replaced_getfile":
        return "/somewhere/else.py"
    if isinstance(thing, types.ModuleType) and thing.__name__ == "replaced_raises":
        raise TypeError("no file")
    return original(thing)
inspect.getfile = getfile
try:
    module, code = new("replaced_plainly")
    assert inspect.getmodule(code) is module and noted("replaced_plainly") == [module.__file__]
    module, code = new("replaced_getfile")
    inspect.getmodule(code)
    assert noted("replaced_getfile") == ["/somewhere/else.py"]
    module, code = new("replaced_raises")
    for _ in range(2):
        try:
            inspect.getmodule(code)
            raise AssertionError("the module has no file")
        except TypeError as error:
            assert str(error) == "no file"
finally:
    inspect.getfile = original
    del sys.modules["replaced_raises"]

# Whoever else copies the modules gets a copy, and no more.
module, code = new("replaced_last")
before = dict(inspect.modulesbyfile)
copy = sys.modules.copy()
assert copy == sys.modules and copy is not sys.modules and {}.copy() == {} and {1: 2}.copy() == {1: 2}
inspect.signature(dict.fromkeys)
assert inspect.modulesbyfile == before and not noted("replaced_last")
assert inspect.getmodule(code) is module
assert repr(dict.copy) == "<method 'copy' of 'dict' objects>" and dict.copy.__doc__
"#;

fn run(minor: u8, session: &Session, source: &str, name: &str) {
    if let Err(error) = session.run(source, name) {
        panic!("3.{minor}: {error}");
    }
}

#[test]
fn files_of_modules_are_noted_as_plain_python_notes_them_and_real_paths_are_not_looked_for() {
    for builder in builders(2) {
        let pool = builder.build().unwrap();
        for interpreter in pool.interpreters() {
            run(pool.python().minor(), &interpreter.session(), NOTED, "noted.py");
        }
    }
}

#[test]
fn functions_that_a_program_puts_in_the_place_of_python_s_are_called() {
    for builder in builders(1) {
        let pool = builder.build().unwrap();
        run(pool.python().minor(), &pool.acquire().unwrap(), REPLACED, "replaced.py");
    }
}

//! An application uses of its machine only what it was allowed to.

use crate::application::{application, found, run, seal};
use std::fs;
use std::process::Command;

#[test]
fn no_variable_directory_or_library_of_the_machine_counts() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shop.py"), "raise SystemExit('the machine s')\n").unwrap();
    fs::write(folder.path().join("sitecustomize.py"), "print('customized')\n").unwrap();
    let code = "
import shop, os, ctypes
print(shop.price(), [path for path in sys.path if not path.startswith('/<sealed>')], sys.flags.ignore_environment)
for name in ('libexpat-is-nowhere.so.1', LIBRARY):
    try:
        ctypes.CDLL(name)
    except OSError as error:
        print(error)
";
    let library = found().library().to_str().unwrap().to_owned();
    let code = code.replace("LIBRARY", &format!("{library:?}"));
    let mut command = application().command(&code);
    command
        .current_dir(folder.path())
        .env("PYTHONPATH", folder.path())
        .env("PYTHONHOME", "/nowhere");
    command.env("PYTHONSTARTUP", "/nowhere").env("VIRTUAL_ENV", folder.path());
    let said = run(&mut command);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "7 [] 1");
    assert!(
        lines[1].contains("libexpat-is-nowhere.so.1: cannot open shared object file: No such file"),
        "{said}"
    );
    assert!(lines[2].contains(&library) && lines[2].contains("sealed"), "{said}");
}

#[test]
fn temporary_files_and_time_zones_need_leave() {
    let code = "
import tempfile, zoneinfo
for work in (tempfile.mkdtemp, lambda: zoneinfo.ZoneInfo('Europe/Berlin')):
    try:
        print(type(work()).__name__)
    except Exception as error:
        print(type(error).__name__, error)
";
    let said = application().says(code);
    assert!(said.contains("--allow tmp") && said.contains("--allow zone"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("work.py");
    fs::write(&script, code).unwrap();
    let file = folder.path().join("app");
    run(seal(&file).arg("--script").arg(&script).args(["--allow", "tmp,zone"]));
    let said = run(Command::new(&file).env("TMPDIR", folder.path()));
    let zones = std::path::Path::new("/usr/share/zoneinfo/Europe/Berlin").exists();
    assert_eq!(said.lines().next(), Some("str"));
    assert_eq!(said.contains("ZoneInfo\n"), zones, "{said}");
}

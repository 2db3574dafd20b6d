//! The errors that a program reads for libraries that cannot be loaded.

use std::path::Path;
use std::process::Command;

use crate::beside::{Seen, copy, directory, plain, pythons, same_everywhere};

/// Runs the script with these arguments.
fn script(mut command: Command, arguments: &[&Path]) -> Seen {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/load_errors.py");
    command.arg(script).args(arguments).output().unwrap().into()
}

#[test]
fn libraries_that_cannot_be_loaded_have_the_errors_of_plain_python() {
    let place = directory("load-errors");
    let python = pythons().values().next().unwrap();
    let made = script(plain(python), &[Path::new("make"), &place]);
    assert_eq!(made.code, Some(0), "{}", made.errors);
    for (minor, python) in pythons() {
        let [expected, seen] =
            [plain(python), copy(python, &[])].map(|command| script(command, &[&place]));
        assert_eq!((expected.code, expected.errors.as_str()), (Some(0), ""), "3.{minor}");
        assert!(expected.output.lines().count() > 100, "{}", expected.output);
        for (expected, seen) in expected.output.lines().zip(seen.output.lines()) {
            assert_eq!(seen, expected, "a copy of 3.{minor} (left) and plain python (right)");
        }
        assert_eq!(seen.output.lines().count(), expected.output.lines().count(), "{}", seen.errors);
    }
}

#[test]
fn libraries_in_a_folder_whose_name_is_not_utf_8_are_loaded() {
    let place = directory("names");
    let program = format!(
        "import ctypes, os, shutil, subprocess, sys\n\
         place = os.fsdecode({:?}.encode() + b'/\\xff')\n\
         shutil.rmtree(place, ignore_errors=True)\n\
         os.mkdir(place)\n\
         def build(name, source, *arguments):\n    \
             command = ['cc', '-shared', '-fPIC', '-x', 'c', '-', '-o', f'{{place}}/lib{{name}}.so']\n    \
             subprocess.run([*command, *arguments], input=source, check=True)\n\
         build('dep', b'int dep(void) {{ return 5; }}')\n\
         build('use', b'int dep(void); int use(void) {{ return dep(); }}',\n      \
               '-x', 'none', '-L' + place, '-ldep', '-Wl,-rpath,$ORIGIN')\n\
         print(ctypes.CDLL(f'{{place}}/libuse.so').use())\n\
         import _queue\n\
         if hasattr(_queue, '__file__'):\n    \
             shutil.copy(_queue.__file__, place)\n    \
             sys.path.insert(0, place)\n    \
             del sys.modules['_queue']\n    \
             import _queue\n    \
             assert _queue.__file__.startswith(place)\n",
        place.to_str().unwrap()
    );
    for (minor, seen) in same_everywhere(&program) {
        assert!(seen.output.starts_with("5\n"), "3.{minor}: {seen:?}");
        // Since 3.12 CPython itself imports no extension module from there.
        assert!(seen.code == Some(0) || minor >= 12, "3.{minor}: {seen:?}");
    }
}

#[test]
fn a_warning_is_plain_text() {
    let profile = directory("profile").join("of-another-python");
    std::fs::write(&profile, "hydrozoa imports 1\n= python 3.9\n+ json\n").unwrap();
    let python = pythons().values().next().unwrap();
    let mut command = copy(python, &["--lazy-imports", profile.to_str().unwrap()]);
    let seen = Seen::from(command.args(["-c", "import json"]).output().unwrap());
    assert_eq!(seen.errors.matches("is of another Python and is not used").count(), 1, "{seen:?}");
    assert!(!seen.errors.contains('\x1b'), "{:?}", seen.errors);
}

#[test]
fn a_library_that_would_take_over_the_process_is_refused_in_words() {
    let place = directory("refused").join("memray");
    std::fs::create_dir_all(&place).unwrap();
    let library = place.join("_memray.so");
    let mut compiler = Command::new("cc");
    let made = compiler.args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(&library).status();
    assert!(made.unwrap().success());
    let program = format!(
        "import ctypes, os\n\
         try:\n    \
             ctypes.CDLL({library:?})\n    \
             os.write(1, b'loaded\\n')\n\
         except OSError as error:\n    \
             os.write(1, f'{{error}}\\n'.encode())\n"
    );
    for (minor, python) in pythons() {
        let [plain, copies] = [plain(python), copy(python, &["--copies", "3", "--in", "all"])]
            .map(|mut command| Seen::from(command.args(["-c", &program]).output().unwrap()));
        assert_eq!(plain.output, "loaded\n", "3.{minor}: {}", plain.errors);
        assert_eq!((copies.code, copies.output.lines().count()), (Some(0), 3), "{copies:?}");
        for line in copies.output.lines() {
            let words = format!("{}: memray takes over the memory", library.display());
            assert!(line.starts_with(&words), "3.{minor}: {line}");
        }
    }
}

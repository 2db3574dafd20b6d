//! What a program reads of libraries that cannot be loaded.

use std::path::Path;
use std::process::Command;

use crate::beside::{Seen, copy, directory, plain, pythons};

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

//! An application for the tests, sealed once for all of them.

use hydrozoa::python::{self, Installation};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Runs the file or the code that its first arguments name, `do FILE` or `say CODE`, as a part of the program.
const PROGRAM: &str = "
import sys

def square(number):
    return number * number

if __name__ == '__main__':
    word, text = sys.argv[1:3]
    exec(text if word == 'say' else open(text).read())
";

/// The sealed program.
pub struct Application {
    folder: TempDir,
}

/// The Python that it carries.
pub fn found() -> Installation {
    let found = python::discover().into_iter().find_map(|candidate| candidate.verdict.ok());
    found.expect("this test needs a shared CPython 3.10 or later")
}

/// `hydrozoa seal` with this Python.
pub fn seal(output: &Path) -> Command {
    seal_of(&found(), output)
}

/// `hydrozoa seal` with another one.
pub fn seal_of(python: &Installation, output: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hydrozoa"));
    command.arg("seal").arg("--python").arg(python.library());
    // The names of a test build's functions are many.
    command.arg("--no-symbols").arg("-o").arg(output);
    command
}

/// Runs a command that has to succeed, and returns what it prints.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout
}

/// The application.
pub fn application() -> &'static Application {
    static APPLICATION: OnceLock<Application> = OnceLock::new();
    APPLICATION.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let venv = folder.path().join("venv");
        let found = found();
        let python = found.executable().expect("an installation with a python");
        run(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(&venv));
        let packages = venv.join(format!("lib/python3.{}/site-packages", found.minor()));
        fs::create_dir_all(packages.join("shop/data")).unwrap();
        fs::create_dir_all(packages.join("shop-1.2.dist-info")).unwrap();
        let write = |name: &str, text: &str| fs::write(packages.join(name), text).unwrap();
        write("shop/__init__.py", "'''Sells.'''\n\ndef price():\n    return 7\n");
        write("shop/data/prices.txt", "apples 3\n");
        let metadata = "Metadata-Version: 2.1\nName: shop\nVersion: 1.2\nLicense: MIT\n";
        write("shop-1.2.dist-info/METADATA", metadata);
        let points = "[console_scripts]\nshop = shop:price\n";
        write("shop-1.2.dist-info/entry_points.txt", points);
        let program = folder.path().join("program.py");
        fs::write(&program, PROGRAM).unwrap();
        let file = folder.path().join("application");
        run(seal(&file).arg("--venv").arg(&venv).arg("--script").arg(&program));
        Application { folder }
    })
}

impl Application {
    /// Its file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("application")
    }

    /// Runs it with this code.
    pub fn command(&self, code: &str) -> Command {
        let mut command = Command::new(self.file());
        command.args(["say", code]);
        command
    }

    /// Runs this code in it, and returns its output.
    pub fn says(&self, code: &str) -> String {
        run(&mut self.command(code))
    }
}

/// Runs this code in plain python, and returns its output.
pub fn plain(code: &str) -> String {
    let found = found();
    let python = found.executable().expect("an installation with a python");
    run(Command::new(python).args(["-I", "-c", code]))
}

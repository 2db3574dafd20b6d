//! A program in plain python, and the same in a copy.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use hydrozoa::python::{Installation, discover};

/// One Python of each minor version that the machine has. It has an executable.
pub fn pythons() -> &'static BTreeMap<u8, Installation> {
    static PYTHONS: OnceLock<BTreeMap<u8, Installation>> = OnceLock::new();
    PYTHONS.get_or_init(|| {
        let candidates = discover();
        let found: BTreeMap<u8, Installation> = candidates
            .iter()
            .rev()
            .filter_map(|one| one.verdict.clone().ok())
            .filter(|one| one.executable().is_some() && one.venv().is_none())
            .map(|one| (one.minor(), one))
            .collect();
        assert!(!found.is_empty(), "these tests need a shared CPython 3.10 or later");
        found
    })
}

/// A directory of a test, without what an earlier run has left in it.
pub fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// What a user sees of a process that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub output: String,
    pub errors: String,
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl From<Output> for Seen {
    fn from(ended: Output) -> Self {
        Self {
            output: String::from_utf8_lossy(&ended.stdout).into_owned(),
            errors: String::from_utf8_lossy(&ended.stderr).into_owned(),
            code: ended.status.code(),
            signal: ended.status.signal(),
        }
    }
}

/// `hydrozoa`.
pub fn hydrozoa() -> Command {
    quiet(Path::new(env!("CARGO_BIN_EXE_hydrozoa")))
}

/// `python`.
pub fn plain(python: &Installation) -> Command {
    quiet(python.executable().unwrap())
}

/// `hydrozoa python OPTIONS… --`.
pub fn copy(python: &Installation, options: &[&str]) -> Command {
    let mut command = hydrozoa();
    command.arg("python").arg("--python").arg(python.library()).args(options).arg("--");
    command
}

/// Without settings of the machine, and without input. Ctrl-C and Ctrl-\ have their default actions: a process in a
/// shell's background has inherited that they are ignored (bash(1), SIGNALS), and Python leaves it so.
fn quiet(program: &Path) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,QUIT").arg(program);
    for name in [
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PYTHONUNBUFFERED",
        "VIRTUAL_ENV",
        "LD_PRELOAD",
    ] {
        command.env_remove(name);
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    command
}

/// What both are seen to do with `-c program`.
pub fn both(python: &Installation, program: &str) -> [Seen; 2] {
    [plain(python), copy(python, &[])]
        .map(|mut command| command.args(["-c", program]).output().unwrap().into())
}

/// What plain python is seen to do with `-c program` on every Python. A copy does the same.
#[track_caller]
pub fn same_everywhere(program: &str) -> BTreeMap<u8, Seen> {
    let caller = std::panic::Location::caller();
    let compare = |(minor, python): (&u8, &Installation)| {
        let [plain, copy] = both(python, program);
        assert_eq!(copy, plain, "{caller}: a copy of 3.{minor} (left) and plain python (right)");
        (*minor, plain)
    };
    pythons().iter().map(compare).collect()
}

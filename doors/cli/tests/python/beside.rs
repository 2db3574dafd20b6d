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

/// The visible outcome of a process that has ended.
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

/// The outcomes of plain python and a copy with `-c program`. If the copy crashes, its report is not compared, but it is there.
pub fn both(python: &Installation, program: &str) -> [Seen; 2] {
    let [plain, mut copy] = [plain(python), copy(python, &[])]
        .map(|mut command| Seen::from(command.args(["-c", program]).output().unwrap()));
    let is_crash = copy.signal.is_some_and(|signal| CRASHES.contains(&signal));
    let report = copy.errors.find("hydrozoa: SIG");
    assert_eq!(report.is_some(), is_crash, "{}", copy.errors);
    copy.errors.truncate(report.unwrap_or(copy.errors.len()));
    [plain, copy]
}

/// SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV, by which a process crashes.
const CRASHES: [i32; 5] = [4, 6, 7, 8, 11];

/// The outcome of plain python with `-c program`, on every Python. A copy does the same.
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

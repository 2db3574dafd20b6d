//! Environments that a process may find itself in: limits, closed streams, refused system calls, other allocators, namespaces.
//! In each a small program starts a pool, computes, settles, runs a child and ends. A row of the table says what works there, and
//! which error says that something does not.
//!
//! | file | is |
//! |---|---|
//! | `rows` | the table |
//! | `program` | the program |
//!
//! The rows need root, and the tools of util-linux. One that lacks something fails and says what.

mod program;
mod rows;

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use hydrozoa::python;
use libtest_mimic::{Arguments, Failed, Trial};

use program::{CLOSED, LIBRARY, REFUSED, REPORT, SETTLE, STEPS};
use rows::Row;

/// Seconds that one row may take on a busy machine.
const PATIENCE: &str = "120";

/// Functions for every script.
const PRELUDE: &str = "
lacks() { echo \"lacks: $*\" >&3; exit 77; }
has() { command -v \"$1\" >/dev/null || lacks \"the command $1\"; }
has unshare; has prlimit; has setarch; has taskset; has setpriv
[ \"$(id -u)\" = 0 ] || lacks 'the rights of root'
library() {
    ldconfig -p | sed -n \"s|.*$1 .*=> ||p\" | head -n 1 | grep . || lacks \"the library $1\"
}
";

fn main() -> ExitCode {
    if std::env::var_os(LIBRARY).is_some() {
        return program::run();
    }
    let mut trials = Vec::new();
    // Only one row at a time changes settings of the whole machine, and no other row sees them.
    let alone: &'static Mutex<()> = Box::leak(Box::default());
    for row in rows::all() {
        let name = row.name.clone();
        trials.push(Trial::test(name, move || {
            let _alone = row.of_machine.then(|| alone.lock());
            check(&row)
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Runs the program in the row's environment, and compares its report with the row's.
fn check(row: &Row) -> Result<(), Failed> {
    let said = run(row)?;
    let lines: Vec<&str> = said.lines().collect();
    if let Some(lack) = lines.iter().find_map(|line| line.strip_prefix("lacks: ")) {
        return Err(format!("this machine lacks {lack}").into());
    }
    let mut wrong = Vec::new();
    for step in STEPS {
        let found = lines.iter().find_map(|line| line.strip_prefix(&format!("{step}: ")));
        let differs = row.differs.iter().find(|(of, _)| *of == step);
        let is_right = match (found, differs) {
            (Some(found), None) => found == "works",
            (Some(found), Some((_, words))) => found.contains(words),
            // After a failed start there is nothing.
            (None, _) => row.differs.iter().any(|(of, _)| *of == STEPS[0]),
        };
        if !is_right {
            let expected = differs.map_or("works", |(_, words)| words);
            wrong.push(format!("{step}: expected {expected:?}, found {found:?}"));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("{}\nall that was said:\n{said}", wrong.join("\n")).into()),
    }
}

/// The program's report and, if it does not end well, how it ends.
fn run(row: &Row) -> Result<String, Failed> {
    let scratch = tempfile::Builder::new()
        .prefix("hydrozoa-environment-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let installation = python::find(None)?;
    let (mut reading, writing) = std::io::pipe()?;
    let end = OwnedFd::from(writing);
    let number = end.as_raw_fd();
    let mut command = Command::new("timeout");
    command
        .args(["--signal=KILL", PATIENCE, "sh", "-c", &format!("{PRELUDE}{}", row.script), "sh"])
        .arg(std::env::current_exe()?)
        .env(LIBRARY, installation.library())
        .env("PREFIX", installation.prefix())
        .env("SCRATCH", scratch.path())
        .env(SETTLE, scratch.path())
        .env(CLOSED, row.closed)
        .env(REFUSED, &row.refused)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let duplicate = move || {
        // SAFETY: two numbers; nothing else has the second one in the child.
        match unsafe { libc::dup2(number, REPORT) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(duplicate) };
    let child = command.spawn()?;
    drop(end);
    let mut said = String::new();
    reading.read_to_string(&mut said)?;
    let output = child.wait_with_output()?;
    let status = output.status;
    if !status.success() && status.code() != Some(77) {
        let how = match status.signal() {
            Some(signal) => format!("signal {signal}"),
            None => format!("status {}", status.code().unwrap_or_default()),
        };
        said.push_str(&format!("end: {how}\n"));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    Ok(said)
}

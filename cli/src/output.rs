//! What the command says, and to whom.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::process;

/// `println!` for a command that may be the left side of a pipe.
macro_rules! say {
    () => { $crate::output::put(format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::output::put(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Writes to standard output. If nobody reads that any more the command ends with the status of a
/// process that SIGPIPE ended, as shells tell it, and says nothing; other failures it tells.
pub fn put(text: Arguments<'_>) {
    let Err(error) = stdout().lock().write_fmt(text) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        process::exit(128 + SIGPIPE);
    }
    let _ = writeln!(stderr(), "hydrozoa: standard output: {error}");
    process::exit(1);
}

/// signal(7), on every architecture.
const SIGPIPE: i32 = 13;

/// Tells an error and what caused it: what Python code raised with its traceback, and no cause
/// twice, as those that are told by the error that they caused would be.
pub fn complain(error: &anyhow::Error) {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let traceback = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<hydrozoa::Error>()?.traceback())
        .unwrap_or_default();
    // Its last line is the message.
    let frames = traceback.trim_end().strip_suffix(text.trim_end()).unwrap_or(traceback);
    let mut stderr = stderr().lock();
    // Nobody is left to be told that nobody can be told.
    let _ = write!(stderr, "{frames}");
    let _ = writeln!(stderr, "hydrozoa: {text}");
}

//! Output and error messages of the command.

use std::collections::HashSet;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::{env, process};

/// `println!` for a command that may be the left side of a pipe.
macro_rules! say {
    () => { $crate::output::put(format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::output::put(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Writes to standard output. If the reader has closed it, the command ends silently with the status that shells give
/// a process that SIGPIPE ended. Other failures are reported.
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

/// Prints an error ([`words`]).
pub fn complain(error: &anyhow::Error) {
    // Standard error is closed too: the failure cannot be reported.
    let _ = stderr().lock().write_all(words(error).as_bytes());
}

/// An error and its causes, and the traceback of an exception that Python code raised. A cause is left out if the text of the error
/// above it already contains it.
pub fn words(error: &anyhow::Error) -> String {
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
    format!("{frames}hydrozoa: {text}\n")
}

/// Whether standard error is open.
pub fn has_standard_error() -> bool {
    stderr().as_fd().try_clone_to_owned().is_ok()
}

/// Shows the library's warnings on standard error: standard output belongs to the program. They are coloured on a
/// terminal. Copies that meet the same thing warn once.
pub fn show_warnings() {
    // https://no-color.org
    let declined = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(|| Once)
        .with_ansi(stderr().is_terminal() && !declined)
        .without_time()
        .with_target(false)
        .init();
}

/// Writes to standard error what it has not written before. The subscriber writes each warning with one call.
struct Once;

static WRITTEN: Mutex<Option<HashSet<Vec<u8>>>> = Mutex::new(None);

impl Write for Once {
    fn write(&mut self, warning: &[u8]) -> io::Result<usize> {
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        match written.get_or_insert_default().insert(warning.to_vec()) {
            true => stderr().write_all(warning).map(|()| warning.len()),
            false => Ok(warning.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

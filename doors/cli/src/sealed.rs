//! The command as a sealed application: its arguments are the application's.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use hydrozoa::sealed::{self, Application, Entry};
use hydrozoa::{CommandLine, entry};

use crate::{python, serve};

/// Runs the application that this program was sealed as, and returns its exit status; `None` if it was not sealed.
pub fn begin() -> Option<Result<i32>> {
    match sealed::application() {
        Ok(None) => None,
        Ok(Some(application)) => Some(run(application)),
        Err(error) => Some(Err(error.into())),
    }
}

fn run(application: &'static Application) -> Result<i32> {
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    let as_python = application.is_called_as_python(&arguments);
    // SAFETY: nothing has started a thread yet.
    unsafe {
        env::set_var(sealed::MARK, "1");
        if !application.allows("certs") {
            // libcrypto reads its settings from a file of the machine, unless this names another.
            env::set_var("OPENSSL_CONF", "/dev/null");
        }
    }
    match application.entry() {
        Entry::Script(_) | Entry::Function(_) if !as_python => match application.copies() {
            1 => Ok(CommandLine::sealed(program, arguments)?.signal_handlers(true).run()?),
            copies => in_all(copies, &program, &arguments),
        },
        Entry::Serve if !as_python => {
            entry::begin_as_rust();
            let packages: Vec<PathBuf> = application.packages().collect();
            serve::run_sealed(&program, &packages, arguments)
        }
        _ => Ok(CommandLine::new(None, None, arguments)?.signal_handlers(true).run()?),
    }
}

/// Runs the entry in so many interpreters at once. Each finds its number, from 1, in `os.environ["HYDROZOA_COPY"]`.
fn in_all(copies: usize, program: &OsString, arguments: &[OsString]) -> Result<i32> {
    entry::begin_as_rust();
    python::at_once(copies, |copy| {
        let command = CommandLine::sealed(program, arguments)?;
        Ok(command.variable("HYDROZOA_COPY", copy.to_string()))
    })
}

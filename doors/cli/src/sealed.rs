//! The command as a sealed application: its arguments are the application's.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use hydrozoa::entry;
use hydrozoa::sealed::{self, Application};

use crate::serve;

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
    if let Some(status) = application.run(&program, arguments.clone())? {
        return Ok(status);
    }
    entry::begin_as_rust();
    let packages: Vec<PathBuf> = application.packages().collect();
    serve::run_sealed(&program, &packages, arguments)
}

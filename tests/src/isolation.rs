//! Tests that each run in a process of their own.
//!
//! A crash in one test must not end the others. Interpreters stay mapped for the life of a process. Figures of memory
//! are those of a process. So every test is a child process of the test binary.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// A test: its name states the behaviour.
pub type Test = (&'static str, fn() -> anyhow::Result<()>);

/// Set in the child: the test that it has to run.
const INSIDE: &str = "HYDROZOA_TEST_INSIDE";

/// Runs the tests that the command line selects, or the one that the parent selected.
pub fn main(tests: &'static [Test]) -> ExitCode {
    if let Ok(name) = std::env::var(INSIDE) {
        return inside(tests, &name);
    }
    let arguments = Arguments::from_args();
    let trials = tests.iter().map(|(name, _)| Trial::test(*name, move || outside(name))).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn inside(tests: &[Test], name: &str) -> ExitCode {
    let Some((_, test)) = tests.iter().find(|(candidate, _)| *candidate == name) else {
        eprintln!("there is no test {name}");
        return ExitCode::FAILURE;
    };
    match test() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn outside(name: &str) -> Result<(), Failed> {
    let output = Command::new(std::env::current_exe()?).env(INSIDE, name).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    Err(format!("{}\n{text}", output.status).into())
}

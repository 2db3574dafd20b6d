//! Plain python and the `hydrozoa` command, as the tests run them.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

use crate::place;

/// Removes the variables that change what python does. The user who runs the tests may have set some.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PYTHON"))
    {
        command.env_remove(name);
    }
    command.env_remove("VIRTUAL_ENV");
    command
}

/// The Python of the tests' environment.
///
/// # Errors
///
/// The environment is missing.
pub fn plain_python() -> Result<Command> {
    Ok(clean(Command::new(place::venv()?.join("bin/python"))))
}

/// `hydrozoa python` with the tests' environment.
///
/// # Errors
///
/// The environment or the command is missing.
pub fn hydrozoa(copies: usize) -> Result<Command> {
    let mut command = clean(Command::new(place::command()?));
    command.arg("python").arg("--venv").arg(place::venv()?);
    command.args(["--copies", &copies.to_string()]);
    Ok(command)
}

/// Its output and errors.
pub fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

/// Runs a command and returns its output.
///
/// # Errors
///
/// It does not start, or fails.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    Ok(text(&output))
}

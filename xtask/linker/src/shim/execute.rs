//! Runs a test under glibc alone or with the shim preloaded.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use xtask_support::time_limit;

use super::table::Unit;

/// glibc's tests give themselves 20 seconds (support/test-driver).
const LIMIT: Duration = Duration::from_secs(60);
/// The exit status of a test that cannot run here (support/test-driver, EXIT_UNSUPPORTED).
const UNSUPPORTED: i32 = 77;

/// How a test ended.
pub(super) enum Verdict {
    Passed,
    /// The test reports that the system lacks something that it needs.
    Unsupported,
    Failed {
        how: String,
        output: String,
    },
}

/// Which loader answers the tests' calls.
#[derive(Clone, Copy)]
pub(super) enum Loader<'a> {
    Glibc,
    Shim(&'a Path),
}

/// Runs `program` in `directory`, where it and its modules were built.
pub(super) fn run(
    unit: &Unit,
    program: &Path,
    directory: &Path,
    sources: &Path,
    loader: Loader<'_>,
) -> anyhow::Result<Verdict> {
    let log = directory.join(format!("{}.out", unit.name));
    let file = std::fs::File::create(&log)?;
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        .env("LD_LIBRARY_PATH", directory)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        // The test's process group identifies the processes that it leaves behind, and ends them.
        .process_group(0);
    let mut preloads: Vec<PathBuf> = Vec::new();
    if let Loader::Shim(shim) = loader {
        preloads.push(shim.to_owned());
        command.env("HYDROZOA_SHIM_DIRECTORY", directory);
    }
    for (name, value) in &unit.environment {
        let value = value.replace('@', &directory.display().to_string());
        if name == "LD_PRELOAD" {
            preloads.push(value.into());
        } else {
            command.env(name, value);
        }
    }
    if !preloads.is_empty() {
        let list: Vec<_> = preloads.iter().map(|path| path.display().to_string()).collect();
        command.env("LD_PRELOAD", list.join(":"));
    }
    let mut child = command.spawn().with_context(|| program.display().to_string())?;
    let group = child.id() as libc::pid_t;
    let status = time_limit::wait(&mut child, LIMIT)?;
    // SAFETY: processes that the test has left, if any, keep the number of the group, which was made above.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    let output = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let failed = |how: String| Ok(Verdict::Failed { how, output: output.clone() });
    let Some(status) = status else {
        return failed(format!("it did not end within {} seconds", LIMIT.as_secs()));
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => {}
        (Some(UNSUPPORTED), _) => return Ok(Verdict::Unsupported),
        (Some(code), _) => return failed(format!("exit status {code}")),
        (None, signal) => return failed(format!("signal {}", signal.unwrap_or(0))),
    }
    if let Some(expected) = &unit.expected {
        let expected = std::fs::read_to_string(sources.join(expected))?;
        if expected != output {
            return failed("its output is not the expected one".into());
        }
    }
    Ok(Verdict::Passed)
}

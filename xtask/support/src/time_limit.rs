//! Commands with a time limit. Their output goes to a file.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Signal(i32),
    /// It was killed at its time limit.
    Late,
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }

    /// The end in words: `exit status 3`, `SIGSEGV`, `killed at its time limit`.
    pub fn words(self) -> String {
        match self {
            Self::Exited(code) => format!("exit status {code}"),
            // signal(7), x86-64.
            Self::Signal(4) => "SIGILL".to_owned(),
            Self::Signal(6) => "SIGABRT".to_owned(),
            Self::Signal(7) => "SIGBUS".to_owned(),
            Self::Signal(8) => "SIGFPE".to_owned(),
            Self::Signal(9) => "SIGKILL".to_owned(),
            Self::Signal(11) => "SIGSEGV".to_owned(),
            Self::Signal(number) => format!("signal {number}"),
            Self::Late => "killed at its time limit".to_owned(),
        }
    }
}

/// Runs a command; both its output streams are written to `log`. At the limit, in seconds, its process group is killed.
pub fn run(command: &mut Command, limit: f64, log: &Path) -> Result<End> {
    let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    let errors = output.try_clone().context("duplicating a file descriptor")?;
    // A group of its own: the children of a killed command end with it.
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let status = wait(&mut child, Duration::from_secs_f64(limit))?;
    Ok(status.map_or(End::Late, End::of))
}

/// Waits for a child that leads a process group. At the limit the group is killed, and there is no status.
///
/// # Errors
///
/// The kernel does not say how the child ended; `kill` cannot be started.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(status) = child.try_wait().context("waiting for a command")? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            // The group exists until the child is waited for.
            Command::new("kill")
                .args(["-KILL", "--", &format!("-{}", child.id())])
                .status()
                .context("starting kill")?;
            child.wait().context("waiting for a killed command")?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The last line in a log that has text.
pub fn last_line(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.unwrap_or("it printed nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(program: &str, limit: f64) -> (End, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let end = run(Command::new("sh").args(["-c", program]), limit, &log).expect("sh starts");
        (end, std::fs::read_to_string(log).expect("a log"))
    }

    #[test]
    fn an_end_is_an_exit_status_or_a_signal() {
        assert_eq!(
            sh("echo out; echo err >&2; exit 3", 60.0),
            (End::Exited(3), "out\nerr\n".into())
        );
        assert_eq!(sh("kill -SEGV $$", 60.0).0, End::Signal(11));
    }

    #[test]
    fn a_late_command_ends_with_its_children() {
        let start = Instant::now();
        let (end, output) = sh("sleep 50 & echo $!; wait", 0.5);
        assert_eq!(end, End::Late);
        assert!(start.elapsed() < Duration::from_secs(30));
        let child = Path::new("/proc").join(output.trim()).join("stat");
        // A killed child that nobody has waited for yet is a zombie.
        let gone = || std::fs::read_to_string(&child).map_or(true, |text| text.contains(") Z "));
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gone() {
            assert!(Instant::now() < deadline, "the child still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

//! The processors' time that a program and its children took.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use anyhow::{Context, Result};

/// Waits for the end of a program. Returns its status, and the seconds of processors that it and those of its descendants took whose
/// ends were waited for (wait4(2)).
///
/// # Errors
///
/// It was waited for already.
pub fn ended(child: Child) -> Result<(ExitStatus, f64)> {
    let pid = libc::pid_t::try_from(child.id()).context("a process's number")?;
    let mut status = 0;
    // SAFETY: numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are there for the call. The child has not been waited for: this function has its only handle.
    while unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } == -1 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("waiting for a program");
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok((ExitStatus::from_raw(status), seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::ended;

    #[test]
    fn children_that_were_waited_for_count() {
        let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("sh -c '{spin}'; exit 3")).stdout(Stdio::null());
        let (status, seconds) = ended(shell.spawn().unwrap()).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(seconds > 0.02, "{seconds}");
    }
}

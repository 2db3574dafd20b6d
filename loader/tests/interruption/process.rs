//! A process for each test. It is killed if it hangs.

use std::ffi::OsString;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Set in the process that is made for a test.
const ALONE: &str = "HYDROZOA_TEST_ALONE";

/// Whether this is such a process.
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs `body` in a process of its own, with these variables in its environment. `test` is the whole name of
/// the test that calls this.
///
/// # Panics
/// The process fails, or has not ended after `patience`.
pub fn alone(test: &str, patience: Duration, variables: &[(&str, OsString)], body: impl FnOnce()) {
    if is_alone() {
        return body();
    }
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .spawn()
        .unwrap();
    let begin = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            assert!(status.success(), "{test}: {status}");
            return;
        }
        if begin.elapsed() > patience {
            process.kill().unwrap();
            process.wait().unwrap();
            panic!("{test} hangs: it has not ended after {patience:?}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// How often a test makes its attempt: `usual`, or the number in the environment for a long run. The patience
/// grows with that number.
pub fn rounds(variable: &str, usual: u64) -> (u64, Duration) {
    let rounds = std::env::var(variable).ok().map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}"))
    });
    (rounds, Duration::from_secs(120) * rounds.div_ceil(usual) as u32)
}

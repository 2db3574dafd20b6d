//! Tests that each run in a process of their own: a test that hangs or crashes ends no other.

use std::process::Command;

/// Set in the child: the name of its test.
const INSIDE: &str = "HYDROZOA_TEST_INSIDE";

/// The last line that a child prints, at the end of its test.
const DONE: &str = "the test came to its end";

/// Runs `body`, the body of the test `name`, in a process of its own, for at most `seconds`.
pub fn own_process(name: &str, seconds: u32, body: impl FnOnce()) {
    own_process_with(name, seconds, &[], body);
}

/// As [`own_process`], with further environment variables.
pub fn own_process_with(name: &str, seconds: u32, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        // SAFETY: SIGALRM ends the process, wherever its threads are.
        unsafe { libc::alarm(seconds) };
        body();
        println!("{DONE}");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, name)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(DONE),
        "{} (a hang ends with signal 14)\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
}

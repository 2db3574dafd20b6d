//! Tests that each run in a process of their own: a failure may be a crash or a hang.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set in the child: the test that it has to run.
const INSIDE: &str = "HYDROZOA_TEST_INSIDE";

/// How long a test may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Runs the body of a test in a process of its own. Fails if that process fails: by a panic, by a signal, or
/// because it does not end. The test function itself calls this.
pub fn isolated<F: FnOnce()>(test: F) {
    // `binary::test::{{closure}}`.
    let path = std::any::type_name::<F>();
    let name = path.rsplit("::").nth(1).expect("a closure in a test");
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == name) {
        return test();
    }
    let executable = std::env::current_exe().unwrap();
    let mut child = Command::new(executable)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, name)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{name} did not come to its end in {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{name}: {status}");
}

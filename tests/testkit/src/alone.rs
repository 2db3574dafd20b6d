//! Tests that each run in a process of their own: a crash or a hang of one ends no other, and its effects on its process disturb
//! no other.

use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Set in a process that was made for a test: the test's whole name.
const ALONE: &str = "HYDROZOA_TEST_ALONE";

/// The last line that such a process prints, at the end of its test.
const DONE: &str = "the test came to its end";

/// How long a test may take on a busy machine, if it needs no time of its own choice.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Whether this process was made for a test.
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs `body` in a process of its own. The test function itself calls this, and `body` is a closure in it.
///
/// # Panics
/// The process fails: by a panic, by a signal, or because it has not ended after `patience`. The message quotes its output.
pub fn alone<F: FnOnce()>(patience: Duration, body: F) {
    alone_with(patience, &[], body);
}

/// As [`alone`], with these variables in the environment of the process.
pub fn alone_with<F: FnOnce()>(patience: Duration, variables: &[(&str, OsString)], body: F) {
    let test = test_of::<F>();
    if std::env::var_os(ALONE).is_some_and(|alone| alone == test) {
        body();
        println!("{DONE}");
        return;
    }
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, test)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let printed = [text(process.stdout.take().unwrap()), text(process.stderr.take().unwrap())];
    let begin = Instant::now();
    let status = loop {
        let status = process.try_wait().unwrap();
        if status.is_some() || begin.elapsed() > patience {
            break status;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut threads = String::new();
    if status.is_none() {
        threads = threads_of(process.id());
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let [printed, errors] = printed.map(|text| text.join().unwrap());
    let outcome = match status {
        None => format!("hangs: it has not ended after {patience:?}. Its threads:\n{threads}"),
        Some(status) if !status.success() => format!("failed: {status}"),
        // The name of a closure's type is not promised. Under another name no test would run.
        Some(_) if !printed.contains(DONE) => "did not run".into(),
        Some(_) => return,
    };
    panic!("{test} {outcome}\n{printed}\n{errors}");
}

/// The whole name of the test that has a closure of this type in its body.
fn test_of<F>() -> &'static str {
    // `binary::module::test::{{closure}}`; in a helper of tests `binary::helper<binary::module::test::{{closure}}>::{{closure}}`.
    let path = std::any::type_name::<F>();
    let path = path.rsplit_once('<').map_or(path, |(_, closure)| closure);
    let (_, path) = path.split_once("::").expect("a closure in a test");
    path.split_once("::{{closure}}").expect("a closure in a test").0
}

/// Whether each thread of a process computes or waits, and for what.
fn threads_of(process: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let line = |thread: DirEntry| {
        let [name, waits, figures] = ["comm", "wchan", "stat"]
            .map(|file| fs::read_to_string(thread.path().join(file)).unwrap_or_default());
        // The name may have any character. After it: the state, and ten fields later the ticks in user and kernel mode (proc(5)).
        let figures = figures.rsplit(") ").next().unwrap_or("");
        let figures: Vec<&str> = figures.split(' ').collect();
        let field = |index: usize| figures.get(index).copied().unwrap_or("?");
        let (state, user, kernel) = (field(0), field(11), field(12));
        format!("  {}: {state} in {waits}, {user} + {kernel} ticks\n", name.trim())
    };
    threads.map(line).collect()
}

/// Reads to the end, on a thread: the process waits where a pipe is full.
fn text(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

//! The command, and what it says.

use crate::frameworks::venv;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long something may take that takes a moment on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The text of a stream so far.
#[derive(Clone, Default)]
pub struct Said(Arc<(Mutex<String>, Condvar)>);

impl Said {
    fn read(stream: impl Read + Send + 'static) -> Self {
        let said = Self::default();
        let own = said.clone();
        std::thread::spawn(move || {
            let (mut stream, mut piece) = (stream, [0; 4096]);
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                own.0.0.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..length]));
                own.0.1.notify_all();
            }
        });
        said
    }

    pub fn text(&self) -> String {
        self.0.0.lock().unwrap().clone()
    }

    /// Waits until it has said this so many times.
    pub fn wait_for(&self, words: &str, times: usize) -> String {
        let is_missing = |text: &mut String| text.matches(words).count() < times;
        let said = self.0.0.lock().unwrap();
        let (said, late) = self.0.1.wait_timeout_while(said, PATIENCE, is_missing).unwrap();
        assert!(!late.timed_out(), "{words:?} was not said {times} times:\n{said}");
        said.clone()
    }
}

pub struct Server {
    pub child: Child,
    pub log: Said,
    pub output: Said,
}

/// The folder of the tests' applications.
pub fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/apps")
}

/// The command with an application of the tests, at a port that is free.
pub fn command(application: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hydrozoa"));
    command.arg("run").arg(application);
    if !options.contains(&"--app-dir") {
        command.arg("--app-dir").arg(apps());
    }
    if !options.contains(&"--bind") && !options.contains(&"--fd") {
        command.args(["--bind", "127.0.0.1:0"]);
    }
    // The tests' own Python has no uvloop, and so asyncio's loop.
    if application == "coroutines"
        && std::env::var_os("HYDROZOA_TEST_UVLOOP").is_some()
        && !options.contains(&"--venv")
    {
        command.arg("--venv").arg(venv());
    }
    command.args(options).stdin(Stdio::null());
    command
}

impl Server {
    pub fn start(application: &str, options: &[&str]) -> Self {
        let server = Self::of(command(application, options));
        server.log.wait_for("the server is ready", 1);
        server
    }

    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Said::read(child.stderr.take().unwrap());
        let output = Said::read(child.stdout.take().unwrap());
        Self { child, log, output }
    }

    /// The address of its first listener.
    pub fn address(&self) -> SocketAddr {
        self.addresses(" application ")[0]
    }

    /// The addresses in lines with these words.
    pub fn addresses(&self, words: &str) -> Vec<SocketAddr> {
        let log = self.log.text();
        let lines = log.lines().filter(|line| line.contains(words));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
    }

    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// Bytes of its memory that lie in no file.
    pub fn anonymous(&self) -> u64 {
        let file = format!("/proc/{}/smaps_rollup", self.child.id());
        let rollup = std::fs::read_to_string(file).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Bytes of memory that it has had at most.
    pub fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.log.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it in good order.
    pub fn end(mut self) -> (String, String) {
        self.signal("TERM");
        assert_eq!(self.wait().code(), Some(0), "{}", self.log.text());
        self.log.wait_for("the server has ended", 1);
        (self.log.text(), self.output.text())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

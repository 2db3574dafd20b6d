//! Servers, ours and others': started, waited for, asked, and ended.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How long a server may take to be ready with all its models.
const PATIENCE: Duration = Duration::from_secs(300);

/// A server that runs in a process group of its own. Dropping it kills its processes.
pub struct Server {
    name: String,
    child: Child,
    port: u16,
    log: PathBuf,
    /// Seconds from the start until it was ready.
    pub ready_seconds: f64,
}

impl Server {
    /// Starts a server that listens at the port, with its output in a file, and waits until it is ready.
    pub fn start(
        name: &str,
        command: &mut Command,
        port: u16,
        log: PathBuf,
        is_ready: impl Fn(&Self) -> bool,
    ) -> Result<Self> {
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let begin = Instant::now();
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        let mut server = Self { name: name.to_owned(), child, port, log, ready_seconds: 0.0 };
        while !is_ready(&server) {
            if let Some(status) = server.child.try_wait()? {
                bail!("{name} has ended: {status}\n{}", server.errors());
            }
            ensure!(begin.elapsed() < PATIENCE, "{name} does not get ready\n{}", server.errors());
            sleep(Duration::from_millis(10));
        }
        server.ready_seconds = begin.elapsed().as_secs_f64();
        Ok(server)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it answers a request for this path with 200.
    pub fn answers(&self, path: &str) -> bool {
        request(self.port, &format!("GET {path}"), "").is_ok_and(|(status, _)| status == 200)
    }

    /// All that it has written.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The lines of the log that tell of Triton's errors, and the last ones.
    pub fn errors(&self) -> String {
        let log = self.log();
        let last = log.lines().count().saturating_sub(30);
        let lines = log.lines().enumerate();
        let errors = lines.filter(|(at, line)| *at >= last || line.starts_with('E'));
        errors.map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, signal: &str) -> Result<()> {
        kill(&[signal, "--", &format!("-{}", self.id())])
    }

    /// Ends it as an operator does. Nothing if it does not end in time.
    pub fn end(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        kill(&[&self.id().to_string()])
            .with_context(|| format!("{} has ended before\n{}", self.name, self.errors()))?;
        let begin = Instant::now();
        while begin.elapsed() < patience {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(None)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // These fail if nothing is left.
        let _ = self.signal("-KILL");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(arguments: &[&str]) -> Result<()> {
    let status = Command::new("kill").args(arguments).stderr(Stdio::null()).status();
    ensure!(status.context("starting kill")?.success(), "kill {} failed", arguments.join(" "));
    Ok(())
}

/// Two free ports.
pub fn free_ports() -> Result<[u16; 2]> {
    // Both are open at the same time, so they are two.
    let [one, other] = [0, 0].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    Ok([one?.local_addr()?.port(), other?.local_addr()?.port()])
}

/// Sends a request, such as `GET /`, to a server of this machine. Returns the status, and the answer with its head.
pub fn request(port: u16, line: &str, body: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("the server")?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let length = body.len();
    let head = "Host: localhost\r\nConnection: close";
    write!(stream, "{line} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).with_context(|| format!("the answer of {line}"))?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12).and_then(|digits| digits.parse().ok());
    Ok((status.context("an answer of HTTP")?, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_waited_for_asked_and_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let [port, other] = free_ports().expect("ports");
        assert_ne!(port, other);
        let start = |arguments: &[&str]| {
            let mut command = Command::new("python3");
            command.args(arguments).current_dir(folder.path());
            let ready = |server: &Server| server.answers("/");
            Server::start("python", &mut command, port, folder.path().join("log"), ready)
        };
        let number = port.to_string();
        let mut server = start(&["-m", "http.server", &number]).expect("it is ready");
        let (status, answer) = request(port, "GET /log", "").expect("an answer");
        assert!(status == 200 && answer.starts_with("HTTP/1.0 200 "), "{answer}");
        assert!(!server.answers("/absent") && server.log().contains("GET /absent"));
        assert!(server.end(Duration::from_secs(60)).expect("it ends").is_some());
        let error = start(&["-c", "exit('it is broken')"]).err().expect("it has ended").to_string();
        assert!(error.contains("python has ended") && error.contains("it is broken"), "{error}");
    }
}

//! A server that runs.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::repository;
use super::system::{Place, Served, System};
use crate::family::{self, Memory};
use crate::triton::free_ports;

/// How long a server may take to be ready with all its models.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a server may take to end by itself. Uvicorn's and LitServe's workers do not always.
const END: Duration = Duration::from_secs(30);

/// A server with a model. Dropping it kills its processes.
pub struct Running {
    pub system: System,
    child: Child,
    port: u16,
    names: Vec<String>,
    scratch: TempDir,
    /// Seconds from the start to the first answer that says that all instances are there.
    pub ready_seconds: f64,
}

impl Running {
    /// Starts a system and waits until it is ready.
    pub fn start(place: &Place, system: System, served: Served<'_>) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let ports = free_ports()?;
        let mut command = place.command(system, served, scratch.path(), ports)?;
        let log = fs::File::create(scratch.path().join("log")).context("making a log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let begin = Instant::now();
        let child = command.spawn().with_context(|| format!("starting {}", system.name()))?;
        let names = repository::names(served);
        let [port, _] = ports;
        let mut running = Self { system, child, port, names, scratch, ready_seconds: 0.0 };
        running.wait_until_ready(begin)?;
        running.ready_seconds = begin.elapsed().as_secs_f64();
        Ok(running)
    }

    fn wait_until_ready(&mut self, begin: Instant) -> Result<()> {
        while !self.is_ready() {
            let name = self.system.name();
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} has ended: {status}\n{}", self.log());
            }
            ensure!(begin.elapsed() < PATIENCE, "{name} does not get ready\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else {
            return false;
        };
        let request = format!("GET {} HTTP/1.0\r\nHost: localhost\r\n\r\n", self.system.health());
        let mut answer = [0; 12];
        let patience = Some(Duration::from_secs(5));
        stream.set_read_timeout(patience).is_ok()
            && stream.write_all(request.as_bytes()).is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && answer.ends_with(b"200")
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The last lines that the system has written.
    pub fn log(&self) -> String {
        let text = fs::read(self.scratch.path().join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// The client's command line for one of the models, without what it is to do.
    pub fn client(&self, load: &Path, model: usize, cases: &Path) -> Command {
        let mut command = Command::new(load);
        command.args(["--port", &self.port.to_string()]);
        command.args(["--path", &self.system.path(&self.names[model])]);
        command.args(["--style", self.system.style()]).arg("--cases").arg(cases);
        command
    }

    /// Runs the client and reads its report. Its words and the server's log are in the error.
    pub fn report<T: DeserializeOwned>(&self, client: &mut Command) -> Result<T> {
        let output = client.stderr(Stdio::piped()).output().context("starting the client")?;
        let words = String::from_utf8_lossy(&output.stderr);
        let name = self.system.name();
        ensure!(output.status.success(), "{name}: {words}\n{}", self.log());
        serde_json::from_slice(&output.stdout).with_context(|| format!("{name}: {words}"))
    }

    /// Closed loop by so many connections.
    pub fn closed(
        &self,
        (load, model, cases): (&Path, usize, &Path),
        connections: usize,
        seconds: f64,
    ) -> Result<Closed> {
        let mut client = self.client(load, model, cases);
        client.arg("closed").args(["--connections", &connections.to_string()]);
        self.report(client.args(["--seconds", &seconds.to_string()]))
    }

    /// Time of processors that all its processes have had, in seconds.
    pub fn processor_seconds(&self) -> Result<f64> {
        family::processor_seconds(self.child.id())
    }

    /// Memory of all its processes.
    pub fn memory(&self) -> Result<Memory> {
        family::memory(self.child.id()).with_context(|| format!("memory of {}", self.system.name()))
    }

    /// Stops all its processes, so that they take nothing from others.
    pub fn pause(&self) -> Result<()> {
        self.signal("-STOP")
    }

    /// Lets them go on.
    pub fn resume(&self) -> Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let group = format!("-{}", self.child.id());
        let status =
            Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
        ensure!(status.context("starting kill")?.success(), "kill {signal} failed");
        Ok(())
    }

    /// Ends it as an operator does, and kills what remains of it.
    pub fn end(mut self) -> Result<()> {
        self.resume()?;
        let id = self.child.id().to_string();
        let status = Command::new("kill").arg(&id).status().context("starting kill")?;
        ensure!(status.success(), "{} has ended before\n{}", self.system.name(), self.log());
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() && begin.elapsed() < END {
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // These fail if nothing is left.
        let _ = self.signal("-KILL");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the client reports of a closed loop.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub struct Closed {
    pub requests: usize,
    pub all_requests: usize,
    pub throughput: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// The folder with a model's inputs and outputs.
pub fn cases(folder: &Path, model: &str) -> PathBuf {
    folder.join("cases").join(model)
}

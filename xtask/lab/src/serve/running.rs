//! A serving system that runs with its models.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hydrozoa_measure::family::{Family, FamilyMemory};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::repository;
use super::system::{Installed, Served, System};
use crate::server::{Server, free_ports};

/// How long a server may take to end by itself. Uvicorn's and LitServe's workers do not always.
const END: Duration = Duration::from_secs(30);

/// A system with a model.
pub struct Running {
    pub system: System,
    /// Before the folder with its files, so that it ends first.
    pub server: Server,
    names: Vec<String>,
    _scratch: TempDir,
}

impl Running {
    /// Starts a system and waits until it is ready.
    pub fn start(installed: &Installed, system: System, served: Served<'_>) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let ports = free_ports()?;
        let mut command = installed.command(system, served, scratch.path(), ports)?;
        let log = scratch.path().join("log");
        let is_ready = |server: &Server| server.answers(system.health());
        let server = Server::start(system.name(), &mut command, ports[0], log, is_ready)?;
        Ok(Self { system, server, names: repository::names(served), _scratch: scratch })
    }

    /// The client's command line for one of the models, without its task.
    pub fn client(&self, load: &Path, model: usize, cases: &Path) -> Command {
        let mut command = Command::new(load);
        command.args(["--port", &self.server.port().to_string()]);
        command.args(["--path", &self.system.path(&self.names[model])]);
        command.args(["--style", self.system.style()]).arg("--cases").arg(cases);
        command
    }

    /// Runs the client and reads its report. Its words and the server's log are in the error.
    pub fn report<T: DeserializeOwned>(&self, client: &mut Command) -> Result<T> {
        let output = client.stderr(Stdio::piped()).output().context("starting the client")?;
        let words = String::from_utf8_lossy(&output.stderr);
        let name = self.system.name();
        ensure!(output.status.success(), "{name}: {words}\n{}", self.server.errors());
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
    pub fn processor_seconds(&self) -> f64 {
        Family::of(self.server.id()).processor_seconds()
    }

    /// Memory of all its processes.
    pub fn memory(&self) -> Result<FamilyMemory> {
        let memory = Family::of(self.server.id()).memory();
        memory.with_context(|| format!("memory of {}", self.system.name()))
    }

    /// Stops all its processes, so that they take nothing from others.
    pub fn pause(&self) -> Result<()> {
        self.server.signal("-STOP")
    }

    /// Lets them go on.
    pub fn resume(&self) -> Result<()> {
        self.server.signal("-CONT")
    }

    /// Ends it as an operator does, and kills what remains of it.
    pub fn end(mut self) -> Result<()> {
        self.resume()?;
        self.server.end(END).map(drop)
    }
}

/// The client's report of a closed loop.
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

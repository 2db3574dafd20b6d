//! A contender that serves an application.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hydrozoa_measure::family::{Family, FamilyMemory};
use hydrozoa_measure::group::Group;
use serde::Deserialize;
use tempfile::TempDir;

use super::application::Application;
use super::contender::Contender;
use super::installed::Installed;
use crate::server::{Server, free_ports};

/// How long a server may take to end by itself, before it is killed.
const END: Duration = Duration::from_secs(15);

/// How long all workers may take until each has answered.
const REACH: Duration = Duration::from_secs(120);

/// Seconds of a window before requests count.
const WARM: &str = "0.5";

/// Requests of a connection before it is opened again. A server's processes take connections, not requests, so kept ones could miss
/// a worker.
const RENEW: usize = 10;

/// A server with its workers.
pub struct Running<'a> {
    pub contender: Contender,
    installed: &'a Installed,
    application: Application,
    workers: usize,
    /// Before the folder with its files, so that it ends first.
    server: Server,
    _scratch: TempDir,
}

/// The client's report.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Report {
    pub requests: usize,
    pub throughput: f64,
    pub p99_ms: f64,
    pub workers: BTreeSet<String>,
}

impl<'a> Running<'a> {
    /// Starts a server, in a control group if there is one, and waits until each of its workers has answered.
    pub fn start(
        installed: &'a Installed,
        contender: Contender,
        application: Application,
        workers: usize,
        group: Option<&Group>,
    ) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let [port, _] = free_ports()?;
        let mut command = contender.command(installed, application, workers, port, scratch.path());
        if let Some(group) = group {
            command = group.command(&command);
        }
        let path = installed.path(application)?;
        let log = scratch.path().join("log");
        let is_ready = |server: &Server| server.answers(&path);
        let server = Server::start(contender.name(), &mut command, port, log, is_ready)?;
        let running =
            Self { contender, installed, application, workers, server, _scratch: scratch };
        running.reach()?;
        Ok(running)
    }

    /// Asks until each worker has answered.
    fn reach(&self) -> Result<()> {
        let begin = Instant::now();
        let mut reached = BTreeSet::new();
        while reached.len() < self.workers {
            ensure!(
                begin.elapsed() < REACH,
                "{}: {} of {} workers have answered in {} s\n{}",
                self.contender.name(),
                reached.len(),
                self.workers,
                REACH.as_secs(),
                self.server.errors()
            );
            reached.extend(self.closed(4 * self.workers, 40 * self.workers)?.workers);
        }
        Ok(())
    }

    /// So many requests by so many connections, which are opened again and again.
    pub fn closed(&self, connections: usize, requests: usize) -> Result<Report> {
        let mut client = self.client(connections, true);
        self.report(client.args(["closed", "--requests", &requests.to_string()]))
    }

    /// Requests for so many seconds. Connections are kept if the server keeps them, or opened again and again.
    pub fn window(&self, connections: usize, seconds: f64, renews: bool) -> Result<Report> {
        let mut client = self.client(connections, renews);
        client.args(["closed", "--seconds", &seconds.to_string(), "--warm", WARM]);
        let report = self.report(&mut client)?;
        let name = self.contender.name();
        ensure!(
            report.requests > 0,
            "{name} has answered nothing in {seconds} s; `--seconds` makes windows longer"
        );
        Ok(report)
    }

    /// Begins requests at a steady rate.
    pub fn steady(&self, connections: usize, rate: f64, seconds: f64) -> Result<Steady<'_>> {
        let mut client = self.client(connections, true);
        client.args(["steady", "--rate", &rate.to_string(), "--seconds", &seconds.to_string()]);
        let child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Ok(Steady { running: self, client: child.context("starting the client")? })
    }

    /// Memory of all its processes.
    pub fn memory(&self) -> Result<FamilyMemory> {
        let memory = Family::of(self.server.id()).memory();
        memory.with_context(|| format!("memory of {}", self.contender.name()))
    }

    /// Seconds from its start until it was ready.
    pub fn ready_seconds(&self) -> f64 {
        self.server.ready_seconds
    }

    /// Ends it as an operator does, and kills what remains of it.
    pub fn end(mut self) -> Result<()> {
        self.server.end(END).map(drop)
    }

    /// The client's command line, without its task.
    fn client(&self, connections: usize, renews: bool) -> Command {
        let mut command = Command::new(&self.installed.client);
        command.args(["--port", &self.server.port().to_string()]).arg("--cases");
        command.arg(self.installed.cases(self.application));
        command.args(["--connections", &connections.to_string()]);
        if renews {
            command.args(["--renew", &RENEW.to_string()]);
        }
        command
    }

    /// Runs the client and reads its report.
    fn report(&self, client: &mut Command) -> Result<Report> {
        let output = client.stderr(Stdio::piped()).output().context("starting the client")?;
        self.read(output)
    }

    /// The client's words and the server's log are in the error.
    fn read(&self, output: std::process::Output) -> Result<Report> {
        let words = String::from_utf8_lossy(&output.stderr);
        let name = self.contender.name();
        ensure!(output.status.success(), "{name}: {words}\n{}", self.server.errors());
        serde_json::from_slice(&output.stdout).with_context(|| format!("{name}: {words}"))
    }
}

/// Requests at a steady rate, which are under way.
pub struct Steady<'a> {
    running: &'a Running<'a>,
    client: Child,
}

impl Steady<'_> {
    /// Waits for the last one.
    pub fn end(self) -> Result<Report> {
        let output = self.client.wait_with_output().context("the client")?;
        self.running.read(output)
    }
}

//! The servers, and how each serves an application of tests/protocols.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tempfile::TempDir;

use super::Programs;
use crate::server::{Server, free_ports};
use crate::{venv, workspace};

/// How long a server may take to end by itself. Clients of some tests keep their connections.
const END: Duration = Duration::from_secs(10);

/// A server that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Contender {
    Hydrozoa,
    Uvicorn,
    Granian,
    Gunicorn,
    Hypercorn,
}

impl Contender {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hydrozoa => "hydrozoa",
            Self::Uvicorn => "uvicorn",
            Self::Granian => "granian",
            Self::Gunicorn => "gunicorn",
            Self::Hypercorn => "hypercorn",
        }
    }
}

/// The interface of an application. A module has one of each, by these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    Wsgi,
    Asgi,
}

impl Interface {
    fn attribute(self) -> &'static str {
        match self {
            Self::Wsgi => "application",
            Self::Asgi => "app",
        }
    }
}

/// A server that serves a module.
pub struct Running {
    server: Server,
    /// Where programs write.
    pub scratch: TempDir,
}

/// The folder with the programs of this laboratory.
pub fn test_programs() -> PathBuf {
    workspace::root().join("tests/protocols")
}

impl Running {
    /// Starts a server with one worker. `variables` tells the module more.
    pub fn start(
        contender: Contender,
        programs: &Programs,
        module: &str,
        interface: Interface,
        variables: impl FnOnce(u16, &Path) -> Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let [port, _] = free_ports()?;
        let mut command = contender.command(programs, module, interface, port);
        command.envs(variables(port, scratch.path()));
        command.env("PYTHONPATH", test_programs()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(scratch.path());
        let log = scratch.path().join("log");
        let is_ready = |server: &Server| server.answers("/");
        let server = Server::start(contender.name(), &mut command, port, log, is_ready)?;
        Ok(Self { server, scratch })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The last lines that it has written.
    pub fn errors(&self) -> String {
        self.server.errors()
    }

    /// Ends it as an operator does, and kills what remains of it.
    pub fn end(mut self) -> Result<()> {
        self.server.end(END).map(drop)
    }
}

impl Contender {
    fn command(
        self,
        programs: &Programs,
        module: &str,
        interface: Interface,
        port: u16,
    ) -> Command {
        let application = format!("{module}:{}", interface.attribute());
        let address = format!("127.0.0.1:{port}");
        let port = port.to_string();
        let is_wsgi = interface == Interface::Wsgi;
        let other = |name: &str| {
            venv::clean(Command::new(programs.environment.root().join("bin").join(name)))
        };
        match self {
            Self::Hydrozoa => {
                let mut command = venv::clean(Command::new(&programs.hydrozoa));
                command.args(["run", &application, "--bind", &address, "--workers", "1"]);
                command.arg("--app-dir").arg(test_programs());
                command.arg("--venv").arg(programs.environment.root());
                // A test of a suite may take long.
                command.args(["--timeout", "0", "--access-log", "off"]);
                if is_wsgi { with(command, &["--threads", "8"]) } else { command }
            }
            Self::Uvicorn => {
                let options = [&application, "--port", &port, "--loop", "asyncio"];
                with(other("uvicorn"), &options)
            }
            Self::Granian => {
                let interface = if is_wsgi { "wsgi" } else { "asgi" };
                let options = [&application, "--interface", interface, "--port", &port];
                let command = with(other("granian"), &options);
                if is_wsgi { with(command, &["--blocking-threads", "8"]) } else { command }
            }
            Self::Gunicorn => {
                let options = [&application, "--bind", &address, "--threads", "8"];
                with(other("gunicorn"), &[&options[..], &["--timeout", "0"]].concat())
            }
            Self::Hypercorn => with(other("hypercorn"), &[&application, "--bind", &address]),
        }
    }
}

fn with(mut command: Command, options: &[&str]) -> Command {
    command.args(options);
    command
}

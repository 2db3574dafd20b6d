//! The servers: which applications each serves, and how it is started.

use std::path::Path;
use std::process::Command;

use super::application::{Application, Interface};
use super::installed::Installed;
use crate::venv;

/// A server with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Contender {
    /// `hydrozoa run` as it is by default
    Hydrozoa,
    /// gunicorn with its sync workers
    Gunicorn,
    /// gunicorn with four threads for each worker
    GunicornGthread,
    /// gunicorn with --preload; by uvicorn's workers for ASGI
    GunicornPreload,
    /// uvicorn with uvloop and httptools
    Uvicorn,
    /// granian
    Granian,
    /// hypercorn with uvloop
    Hypercorn,
}

impl Contender {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::Hydrozoa,
        Self::Gunicorn,
        Self::GunicornGthread,
        Self::GunicornPreload,
        Self::Uvicorn,
        Self::Granian,
        Self::Hypercorn,
    ];

    /// The name in options and measurements.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hydrozoa => "hydrozoa",
            Self::Gunicorn => "gunicorn",
            Self::GunicornGthread => "gunicorn-gthread",
            Self::GunicornPreload => "gunicorn-preload",
            Self::Uvicorn => "uvicorn",
            Self::Granian => "granian",
            Self::Hypercorn => "hypercorn",
        }
    }

    /// The name in tables.
    pub fn title(name: &str) -> &str {
        match name {
            "hydrozoa" => "hydrozoa run",
            "gunicorn" => "gunicorn, sync",
            "gunicorn-gthread" => "gunicorn, gthread",
            "gunicorn-preload" => "gunicorn `--preload`",
            "uvicorn" => "uvicorn (uvloop, httptools)",
            "granian" => "Granian",
            "hypercorn" => "Hypercorn (uvloop)",
            other => other,
        }
    }

    /// Whether it serves applications of this interface.
    pub fn serves(self, interface: Interface) -> bool {
        match self {
            Self::Hydrozoa | Self::GunicornPreload | Self::Granian => true,
            Self::Gunicorn | Self::GunicornGthread => interface == Interface::Wsgi,
            Self::Uvicorn | Self::Hypercorn => interface == Interface::Asgi,
        }
    }

    /// The command that serves at the port. It begins in an empty folder.
    pub fn command(
        self,
        installed: &Installed,
        application: Application,
        workers: usize,
        port: u16,
        scratch: &Path,
    ) -> Command {
        let root = installed.environment(application).root();
        let program = |name: &str| venv::clean(Command::new(root.join("bin").join(name)));
        let target = format!("{}:app", application.module());
        let (workers, bind) = (workers.to_string(), format!("127.0.0.1:{port}"));
        let interface = application.interface();
        let mut command = match self {
            Self::Hydrozoa => {
                let mut command = venv::clean(Command::new(&installed.hydrozoa));
                command.args(["run", &target, "--workers", &workers, "--bind", &bind]);
                command.args(["--access-log", "off", "--venv"]).arg(root);
                command.arg("--app-dir").arg(super::installed::scripts());
                command
            }
            Self::Gunicorn | Self::GunicornGthread | Self::GunicornPreload => {
                let mut command = program("gunicorn");
                command.args([&target, "--workers", &workers, "--bind", &bind]);
                command.args(["--log-level", "warning"]).args(self.gunicorn(interface));
                command
            }
            Self::Uvicorn => {
                let mut command = program("uvicorn");
                command.args([&target, "--workers", &workers, "--port", &port.to_string()]);
                command.args(["--loop", "uvloop", "--http", "httptools", "--no-access-log"]);
                command.args(["--log-level", "warning"]);
                command
            }
            Self::Granian => {
                let mut command = program("granian");
                command.args([&target, "--interface", interface.name(), "--workers", &workers]);
                command.args(["--port", &port.to_string(), "--log-level", "warning"]);
                command
            }
            Self::Hypercorn => {
                let mut command = program("hypercorn");
                command.args([&target, "--workers", &workers, "--bind", &bind]);
                command.args(["--worker-class", "uvloop", "--log-level", "warning"]);
                command
            }
        };
        if self != Self::Hydrozoa {
            command.env("PYTHONPATH", super::installed::scripts());
        }
        installed.variables(&mut command);
        command.current_dir(scratch);
        command
    }

    /// gunicorn's options for a kind of workers.
    fn gunicorn(self, interface: Interface) -> &'static [&'static str] {
        match (self, interface) {
            (Self::GunicornGthread, _) => &["--worker-class", "gthread", "--threads", "4"],
            (Self::GunicornPreload, Interface::Wsgi) => &["--preload"],
            (Self::GunicornPreload, Interface::Asgi) => {
                &["--preload", "--worker-class", "uvicorn_worker.UvicornWorker"]
            }
            _ => &["--worker-class", "sync"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn each_contender_has_one_name_and_a_title() {
        assert_eq!(Contender::value_variants(), Contender::ALL);
        for contender in Contender::ALL {
            let option = contender.to_possible_value().expect("no contender is hidden");
            assert_eq!(option.get_name(), contender.name());
            assert_ne!(Contender::title(contender.name()), contender.name());
        }
    }

    #[test]
    fn each_interface_has_a_preloaded_rival_and_others() {
        for interface in [Interface::Wsgi, Interface::Asgi] {
            let serves = Contender::ALL.into_iter().filter(|one| one.serves(interface)).count();
            assert_eq!(serves, 5);
            assert!(Contender::GunicornPreload.serves(interface));
        }
    }
}

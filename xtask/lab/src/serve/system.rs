//! The serving systems: how each is started with a model, and how it is asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::repository;
use crate::environment::Environment;
use crate::triton::Triton;
use crate::{backend, venv, workspace};

/// A serving system with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// `hydrozoa serve --dense=off`.
    Hydrozoa,
    /// As it is by default: dense.
    HydrozoaSettled,
    /// In memory, with imports recorded by the first instance, `HYDROZOA_IMPORTS`.
    HydrozoaRecorded,
    /// Triton with the backend of `serving/triton/`.
    TritonHydrozoa,
    /// Triton with its Python backend.
    TritonPython,
    /// LitServe.
    LitServe,
    /// Seldon's MLServer.
    MlServer,
    /// FastAPI in workers of uvicorn.
    FastApi,
}

impl System {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Hydrozoa,
        Self::HydrozoaSettled,
        Self::HydrozoaRecorded,
        Self::TritonHydrozoa,
        Self::TritonPython,
        Self::LitServe,
        Self::MlServer,
        Self::FastApi,
    ];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hydrozoa => "hydrozoa",
            Self::HydrozoaSettled => "hydrozoa-settled",
            Self::HydrozoaRecorded => "hydrozoa-recorded",
            Self::TritonHydrozoa => "triton-hydrozoa",
            Self::TritonPython => "triton-python",
            Self::LitServe => "litserve",
            Self::MlServer => "mlserver",
            Self::FastApi => "fastapi",
        }
    }

    /// The name in tables and plots.
    pub fn title(name: &str) -> &str {
        match name {
            "hydrozoa" => "hydrozoa serve",
            "hydrozoa-settled" => "hydrozoa serve, settled",
            "hydrozoa-recorded" => "hydrozoa serve, imports recorded",
            "triton-hydrozoa" => "Triton, our backend",
            "triton-python" => "Triton, Python backend",
            "litserve" => "LitServe",
            "mlserver" => "MLServer",
            "fastapi" => "FastAPI, uvicorn",
            other => other,
        }
    }

    /// How the client writes tensors: the name of the option of `load`.
    pub fn style(self) -> &'static str {
        match self {
            Self::LitServe | Self::FastApi => "raw",
            Self::MlServer => "base64",
            _ => "binary",
        }
    }

    /// Where requests for a model go.
    pub fn path(self, model: &str) -> String {
        match self {
            Self::LitServe | Self::FastApi => "/predict".to_owned(),
            _ => format!("/v2/models/{model}/infer"),
        }
    }

    /// The path that answers with 200 once all instances are ready.
    pub fn health(self) -> &'static str {
        match self {
            Self::LitServe | Self::FastApi => "/health",
            _ => "/v2/health/ready",
        }
    }

    /// Whether one server can have several models.
    pub fn has_repositories(self) -> bool {
        !matches!(self, Self::LitServe | Self::FastApi)
    }

    /// Whether it differs much from `hydrozoa serve` where torch is used only.
    pub fn is_for_torch(self) -> bool {
        matches!(self, Self::HydrozoaSettled | Self::HydrozoaRecorded)
    }
}

impl std::str::FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|system| system.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|system| system.name()).collect();
            format!("one of {}", names.join(", "))
        })
    }
}

/// The served models: copies of a model, each with so many instances.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    pub model: &'a str,
    pub models: usize,
    pub instances: usize,
}

/// The installed requirements of all systems.
pub struct Installed {
    pub hydrozoa: PathBuf,
    pub backend: Option<PathBuf>,
    pub triton: Option<Triton>,
    /// The environment of hydrozoa and of Triton; those of the others by name.
    pub models: Environment,
    pub others: Vec<(&'static str, Environment)>,
    /// Files that models read, and their inputs and outputs.
    pub folder: PathBuf,
    /// Options of `hydrozoa serve` for all of its runs.
    pub options: Vec<String>,
    /// Parameters of the models of `hydrozoa serve`.
    pub parameters: Vec<Parameter>,
    /// Whether the repository of `hydrozoa serve` has the faulty models too.
    pub has_faults: bool,
}

/// A parameter of a model's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    pub key: String,
    pub value: String,
}

impl std::str::FromStr for Parameter {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, value) = text.split_once('=').context("a parameter is KEY=VALUE")?;
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl Installed {
    /// Where the models' code is.
    pub fn scripts() -> PathBuf {
        workspace::root().join("benches/python/serving")
    }

    fn other(&self, name: &str) -> Result<&Path> {
        let found = self.others.iter().find(|(other, _)| *other == name);
        Ok(found.with_context(|| format!("{name} is not installed"))?.1.root())
    }

    /// The command that serves at these two ports, of which the second is free for the system's other needs. Its files
    /// are written to a folder that is empty.
    pub fn command(
        &self,
        system: System,
        served: Served<'_>,
        scratch: &Path,
        ports: [u16; 2],
    ) -> Result<Command> {
        let port = ports[0].to_string();
        let instances = served.instances.to_string();
        let repository = scratch.join("models");
        let mut command = match system {
            System::Hydrozoa | System::HydrozoaSettled | System::HydrozoaRecorded => {
                let mut parameters = self.parameters.clone();
                if system == System::HydrozoaRecorded {
                    parameters.insert(0, "HYDROZOA_IMPORTS=recorded".parse()?);
                }
                repository::triton(&repository, served, "python", &self.folder, &parameters)?;
                if self.has_faults {
                    repository::faults(&repository)?;
                }
                let mut command = Command::new(&self.hydrozoa);
                command.arg("serve").arg(&repository).arg("--venv").arg(self.models.root());
                command.args(["--http-address", "127.0.0.1"]);
                command.args(["--http-port", &port, "--allow-metrics=false"]);
                command.args(["--allow-grpc=false", "--exit-timeout-secs", "20"]);
                // Beside the models' files, which are on a disk.
                let folder = (system == System::HydrozoaSettled).then_some(&*self.folder);
                command.arg("--dense").arg(folder.unwrap_or("off".as_ref()));
                command.args(&self.options);
                command
            }
            System::TritonHydrozoa | System::TritonPython => {
                let triton = self.triton.as_ref().context("Triton is not installed")?;
                let backends = scratch.join("backends");
                let name = if system == System::TritonPython {
                    triton.own_backend(self.models.base().minor, &backends)?;
                    "python"
                } else {
                    let built = self.backend.as_ref().context("the backend is not built")?;
                    backend::install(built, &backends, false)?;
                    "hydrozoa"
                };
                repository::triton(&repository, served, name, &self.folder, &[])?;
                triton.command([backends, repository], self.models.root(), ports)?
            }
            System::LitServe => {
                let mut command = venv::python(self.other("litserve")?);
                command.arg(Self::scripts().join("litserve_server.py"));
                command.arg(&port).arg(served.model).arg(&self.folder).arg(&instances);
                command
            }
            System::MlServer => {
                let settings = json!({
                    "host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1],
                    "parallel_workers": served.instances, "metrics_endpoint": null,
                    "debug": false, "use_structured_logging": false,
                });
                repository::mlserver(&repository, served, &settings, &self.folder)?;
                let program = self.other("mlserver")?.join("bin/mlserver");
                let mut command = venv::clean(Command::new(program));
                command.arg("start").arg(&repository);
                command.env("PYTHONPATH", Self::scripts());
                command
            }
            System::FastApi => {
                let ready = scratch.join("ready");
                fs::create_dir_all(&ready).context("making a folder")?;
                let mut command = venv::python(self.other("fastapi")?);
                command.args(["-m", "uvicorn", "fastapi_app:app", "--host", "127.0.0.1"]);
                command.args(["--port", &port, "--workers", &instances, "--no-access-log"]);
                command.args(["--log-level", "warning", "--app-dir"]).arg(Self::scripts());
                command.env("SERVING_MODEL", served.model).env("SERVING_FOLDER", &self.folder);
                command.env("SERVING_READY", ready).env("SERVING_INSTANCES", instances);
                command
            }
        };
        // An instance is to be one thread, as there are as many instances as processors.
        for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"] {
            command.env(name, "1");
        }
        command.env("TOKENIZERS_PARALLELISM", "false").env("PYTHONDONTWRITEBYTECODE", "1");
        // MLServer and LitServe write files where they are started.
        command.current_dir(scratch);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_is_found_by_its_name_and_others_are_refused() {
        for system in System::ALL {
            assert_eq!(system.name().parse(), Ok(system));
            assert_ne!(System::title(system.name()), system.name());
        }
        let refused = "nginx".parse::<System>().expect_err("no such system");
        assert!(refused.starts_with("one of hydrozoa, hydrozoa-settled, "), "{refused}");
        assert!("KEY".parse::<Parameter>().is_err());
    }
}

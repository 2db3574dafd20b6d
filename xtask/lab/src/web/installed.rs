//! Programs, environments, the applications' data and their requests, which all servers share.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::application::Application;
use super::database::Database;
use crate::environment::Environment;
use crate::{lock, python, workspace};

/// The installed requirements of all contenders.
pub struct Installed {
    pub hydrozoa: PathBuf,
    pub client: PathBuf,
    plain: Environment,
    torch: Option<Environment>,
    database: Option<Database>,
    data: TempDir,
}

/// Where the applications' code is.
pub fn scripts() -> PathBuf {
    workspace::root().join("benches/python/web")
}

impl Installed {
    /// Installs what the applications and their servers need, and has plain python compute the right responses. Our programs are built,
    /// unless they are in a folder.
    pub fn install(applications: &[Application], built: Option<&Path>) -> Result<Self> {
        let has = |needs: fn(Application) -> bool| applications.iter().any(|one| needs(*one));
        let database = has(Application::has_database).then(Database::start).transpose()?;
        let python = python::find(Some(&python::Wanted::Minor(lock::SERVING)))?;
        let plain = Environment::with_numpy(python.clone())?.with_server("rivals")?;
        let with_torch = || Environment::with_torch(python)?.with_server("rivals");
        let torch = has(Application::has_torch).then(with_torch).transpose()?;
        let program = |package, name| match built {
            Some(folder) => Ok(folder.join(name)),
            None => workspace::build(package, name),
        };
        let installed = Self {
            hydrozoa: program("hydrozoa-cli", "hydrozoa")?,
            client: program("hydrozoa-benches", "pages")?,
            plain,
            torch,
            database,
            data: tempfile::tempdir()?,
        };
        applications.iter().try_for_each(|application| installed.prepare(*application))?;
        Ok(installed)
    }

    /// The environment of an application, the same for all contenders.
    pub fn environment(&self, application: Application) -> &Environment {
        match &self.torch {
            Some(torch) if application.has_torch() => torch,
            _ => &self.plain,
        }
    }

    /// The folder with an application's requests and right responses.
    pub fn cases(&self, application: Application) -> PathBuf {
        self.data.path().join(application.name())
    }

    /// The path of an application's first request.
    pub fn path(&self, application: Application) -> Result<String> {
        let file = self.cases(application).join("0.request");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("reading {}", file.display()))?;
        let path = text.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
        Ok(path.context("an application's first request is a GET")?.to_owned())
    }

    /// The variables that applications read, and those that keep a worker to one thread.
    pub fn variables(&self, command: &mut Command) {
        command.env("WEB_FOLDER", self.folder());
        if let Some(database) = &self.database {
            command.env("WEB_DATABASE", database.address());
        }
        for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"] {
            command.env(name, "1");
        }
        command.env("PYTHONDONTWRITEBYTECODE", "1");
    }

    fn folder(&self) -> &Path {
        self.data.path()
    }

    fn prepare(&self, application: Application) -> Result<()> {
        let mut command = self.environment(application).python();
        command.arg(scripts().join("prepare.py")).arg(application.interface().name());
        command.arg(application.module()).arg(self.cases(application));
        self.variables(&mut command);
        let status = command.status().context("starting python")?;
        ensure!(status.success(), "plain python cannot run {}: {status}", application.name());
        Ok(())
    }
}

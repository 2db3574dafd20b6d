//! What models are loaded from, and why that fails.

use crate::config::{ConfigDraft, ConfigError};
use crate::interpreters::{Interpreters, Settings};
use crate::python::Context;
use hydrozoa::Builder;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use tempfile::TempDir;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No repository has a model of this name.
    #[error("no repository has a model `{model}`; {searched}")]
    Unknown {
        /// The name.
        model: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The model's folder cannot be read.
    #[error("model `{model}`: reading {}: {source}", path.display())]
    Read {
        /// The model.
        model: String,
        /// What could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing that could be served.
    #[error("model `{model}`: {} has no version to serve: a folder with a number from 1 as its name, and {file_name} in it", path.display())]
    NoVersion {
        /// The model.
        model: String,
        /// Its folder.
        path: PathBuf,
        /// The file that a version must have.
        file_name: String,
    },
    /// The configuration is wrong, or asks for what this server does not do.
    #[error("model `{model}`: config.pbtxt: {source}")]
    Config {
        /// The model.
        model: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// The interpreters did not start, the model raised an exception, or a package is damaged.
    #[error("model `{model}`, version {version}: {source}")]
    Python {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// What failed.
        source: Box<hydrozoa::Error>,
    },
    /// A package does not say how it is called, or not what its configuration says.
    #[error("model `{model}`, version {version}: {}: {problem}", path.display())]
    Package {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// The package.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Two packages, or a package and a folder of a repository, have the same name.
    #[error(
        "there are two models `{model}`: {} and {}; give one of them another name", places[0].display(), places[1].display()
    )]
    Twice {
        /// The name.
        model: String,
        /// Where they are.
        places: [PathBuf; 2],
    },
    /// The name of a package's file names no model.
    #[error("{} gives a model no name: name the file as the model, such as resnet18.pt", path.display())]
    Unnamed {
        /// The file.
        path: PathBuf,
    },
    /// A request of `model_warmup` cannot be made, or the model has answered it with an error. For a package's own example the sample is
    /// `example`.
    #[error(
        "model `{model}`, version {version}: failed to run warmup sample '{sample}': {problem}"
    )]
    Warmup {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// The sample's name.
        sample: String,
        /// What failed.
        problem: String,
    },
    /// A model has asked for the load or unload of a model that is being loaded or unloaded.
    #[error("model `{model}` is being loaded or unloaded; try again later")]
    Busy {
        /// The model.
        model: String,
    },
    /// What the load itself has cannot be used.
    #[error("model `{model}`: the load's {problem}")]
    Override {
        /// The model.
        model: String,
        /// What it is, and what may be.
        problem: String,
    },
    /// A file that the load itself has cannot be written. The words are Triton's.
    #[error(
        "failed to poll from model repository: model `{model}`: writing the load's file `{file}`: {source}"
    )]
    File {
        /// The model.
        model: String,
        /// The file's path in the model's folder.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The system gave no thread.
    #[error("model `{model}`: the system gives no thread: {source}")]
    Thread {
        /// The model.
        model: String,
        /// Why.
        source: io::Error,
    },
}

/// What a version is loaded from.
pub(crate) struct Source<'a> {
    /// The model's folder, or that of a package which lies alone.
    pub(crate) directory: &'a Path,
    /// The file of the version that has the model.
    pub(crate) file: PathBuf,
    pub(crate) draft: &'a ConfigDraft,
    pub(crate) version: i64,
    /// Makes the interpreters of a model.
    pub(crate) builder: &'a (dyn Fn() -> Builder + Send + Sync),
    pub(crate) context: Context,
    /// The interpreters of a former version of the model, which this one replaces.
    pub(crate) former: Option<Arc<Interpreters>>,
    /// The folder, if it was made for the load.
    pub(crate) made: Option<Arc<TempDir>>,
}

/// The parameter that names a model's virtual environment, as Triton's Python backend has it.
pub(crate) const ENVIRONMENT: &str = "EXECUTION_ENV_PATH";

/// The folder of a virtual environment that a model names.
pub(crate) fn environment(text: &str, directory: &Path) -> Result<PathBuf, String> {
    let directory = directory.to_string_lossy();
    let path = PathBuf::from(text.replace("$$TRITON_MODEL_DIRECTORY", &directory));
    if path.is_dir() {
        return Ok(path);
    }
    Err(format!("{} is no folder; a virtual environment is one", path.display()))
}

impl Source<'_> {
    pub(crate) fn name(&self) -> &str {
        self.draft.name()
    }

    pub(crate) fn failed(&self, source: hydrozoa::Error) -> LoadError {
        LoadError::Python {
            model: self.name().to_owned(),
            version: self.version,
            source: source.into(),
        }
    }

    /// What makes a package no model.
    pub(crate) fn unusable(&self, problem: String) -> LoadError {
        LoadError::Package {
            model: self.name().to_owned(),
            version: self.version,
            path: self.file.clone(),
            problem,
        }
    }

    pub(crate) fn configured(&self, source: ConfigError) -> LoadError {
        LoadError::Config { model: self.name().to_owned(), source }
    }

    /// Frees what a package that could not be loaded has left in the interpreters of the one that serves.
    pub(crate) fn sweep(&self) {
        if let Some(former) = &self.former {
            former.sweep();
        }
    }

    /// The virtual environment that the model names.
    pub(crate) fn environment(&self) -> Result<Option<PathBuf>, LoadError> {
        let named = self.draft.parameter(ENVIRONMENT);
        let found = named.map(|text| environment(text, self.directory)).transpose();
        found.map_err(|problem| self.configured(ConfigError::parameter(ENVIRONMENT, problem)))
    }

    /// The interpreters of a Python model, so many.
    pub(crate) fn interpreters(&self, count: usize) -> Result<Interpreters, LoadError> {
        let environment = self.environment()?;
        let settings = Settings { is_package: false, count, environment, imports: None };
        let started = Interpreters::start(self.name(), (self.builder)(), settings, None);
        let started = started.map_err(|error| self.failed(error))?;
        crate::python::prepare(started.pool()).map_err(|error| self.failed(error))?;
        Ok(started)
    }
}

/// A version that a model's folder has, and the file that has the model.
pub(crate) struct Available {
    pub(crate) version: i64,
    pub(crate) file_name: String,
}

/// The versions that a model's folder has: each has the first of these files that is there.
pub(crate) fn versions(directory: &Path, files: &[&str]) -> io::Result<Vec<Available>> {
    let mut versions = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('0')) else { continue };
        let Some(version) = name.parse::<i64>().ok().filter(|version| *version > 0) else {
            continue;
        };
        let folder = directory.join(name);
        let file = files.iter().find(|file| folder.join(file).is_file());
        versions.extend(file.map(|file| Available { version, file_name: (*file).to_owned() }));
    }
    Ok(versions)
}

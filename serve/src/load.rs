//! Why a model cannot be loaded.

use crate::config::ConfigError;
use hydrozoa::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

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
    /// The model's code has exceeded the limit of an initialization.
    #[error(
        "model `{model}`, version {version}: `{what}` has exceeded its limit of {limit:?}{}; raise HYDROZOA_INITIALIZATION_LIMIT \
         if it needs longer",
        if *reacts { "" } else { ", and does not react to the interrupt" }
    )]
    Late {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// Which of the model's functions.
        what: &'static str,
        /// The limit.
        limit: Duration,
        /// Whether it was interrupted. Else it goes on, in an interpreter that nobody uses.
        reacts: bool,
    },
}

impl LoadError {
    pub(crate) fn python(model: &str, version: i64, source: Error) -> Self {
        LoadError::Python { model: model.to_owned(), version, source: source.into() }
    }

    pub(crate) fn late(
        model: &str,
        version: i64,
        what: &'static str,
        limit: Duration,
        reacts: bool,
    ) -> Self {
        LoadError::Late { model: model.to_owned(), version, what, limit, reacts }
    }

    /// Of what was done under a limit.
    pub(crate) fn limited(
        model: &str,
        version: i64,
        source: Error,
        limit: Option<(&'static str, Duration)>,
    ) -> Self {
        match (limit, source) {
            (Some((what, limit)), Error::Deadline { .. }) => {
                Self::late(model, version, what, limit, true)
            }
            (_, source) => Self::python(model, version, source),
        }
    }
}

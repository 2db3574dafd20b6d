//! Why a model cannot be loaded.

use crate::config::ConfigError;
use crate::escaping::escaped;
use crate::execution::summary;
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
    /// An invalid model name. Messages, logs and the page would show something other than the name.
    #[error(
        "`{}` is not the name of a model: it has control characters, or characters that hide others or change their order; give the model \
         another name",
        escaped(model)
    )]
    Name {
        /// The text.
        model: String,
    },
    /// The server is ending, and refuses further loads.
    #[error("model `{model}` is not loaded: the server ends")]
    Ends {
        /// The model.
        model: String,
    },
    /// The model's folder cannot be read.
    #[error("model `{model}`: reading {}: {source}", path.display())]
    Read {
        /// The model.
        model: String,
        /// The unreadable path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The model contains nothing to serve.
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
        /// The error in the configuration.
        source: ConfigError,
    },
    /// The model's inputs and outputs are not described, so no request fits it.
    #[error(
        "model `{model}`: nothing says which inputs and outputs it has: write `input` and `output` in {}, or give its class a static method \
         auto_complete_config that adds them", path.display()
    )]
    NoTensors {
        /// The model.
        model: String,
        /// The file that is not there.
        path: PathBuf,
    },
    /// The interpreters did not start, the model raised an exception, or a package is damaged.
    #[error("model `{model}`, version {version}: {source}")]
    Python {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// The cause.
        source: Box<hydrozoa::Error>,
    },
    /// The model's code imports a module that its Python does not find.
    #[error(
        "model `{model}`, version {version}: its Python finds no module `{module}`{}: install it in a virtual environment, and name that by \
         `--venv DIR`",
        place.as_ref().map(|place| format!(", which {place} imports")).unwrap_or_default()
    )]
    Missing {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// The module.
        module: String,
        /// The last file that asks for it, and its line.
        place: Option<String>,
        /// The exception.
        source: Box<hydrozoa::Error>,
    },
    /// The model's code has crashed, and the crash was contained ([`Defaults::contain_crashes`](crate::Defaults::contain_crashes)).
    #[error("model `{model}`, version {version}: its code has crashed: {}", summary(report))]
    Crashed {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// The report, as [`hydrozoa::Error::Crashed`] has it.
        report: String,
    },
    /// A package does not describe its call, or contradicts its configuration.
    #[error("model `{model}`, version {version}: {}: {problem}", path.display())]
    Package {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// The package.
        path: PathBuf,
        /// The problem, and what to do about it.
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
    /// A package's file name does not yield a model name.
    #[error("{} gives a model no name: name the file as the model, such as resnet18.pt", path.display())]
    Unnamed {
        /// The file.
        path: PathBuf,
    },
    /// A request of `model_warmup` cannot be made, or the model answered it with an error. For a package's own example the sample
    /// is `example`.
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
        /// The failure.
        problem: String,
    },
    /// A model asked for the load or unload of a model that is being loaded or unloaded.
    #[error("model `{model}` is being loaded or unloaded; try again later")]
    Busy {
        /// The model.
        model: String,
    },
    /// The configuration or a file that the load brings along cannot be used.
    #[error("model `{model}`: the load's {problem}")]
    Override {
        /// The model.
        model: String,
        /// The faulty value, and the values allowed.
        problem: String,
    },
    /// A file that the load brings along cannot be written. The words are Triton's.
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
        /// Whether it was interrupted. Otherwise it goes on, in an interpreter that nobody uses.
        reacts: bool,
    },
}

impl LoadError {
    pub(crate) fn python(model: &str, version: i64, source: Error) -> Self {
        let source = match source {
            Error::Crashed { report } => {
                tracing::error!(model, version, "its code has crashed\n{}", report.trim_end());
                return Self::crashed(model, version, &report);
            }
            source => source,
        };
        let model = model.to_owned();
        match missing(&source) {
            Some(module) => {
                let place = source.traceback().and_then(last_file);
                LoadError::Missing { model, version, module, place, source: source.into() }
            }
            None => LoadError::Python { model, version, source: source.into() },
        }
    }

    pub(crate) fn crashed(model: &str, version: i64, report: &str) -> Self {
        LoadError::Crashed { model: model.to_owned(), version, report: report.to_owned() }
    }

    /// The traceback of the exception that was the cause.
    pub fn traceback(&self) -> Option<&str> {
        match self {
            LoadError::Python { source, .. } => source.traceback(),
            _ => None,
        }
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

    /// The error of an operation under a limit.
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

/// The module that is not there, if that is the error. Python's words are those of `_find_and_load_unlocked`
/// (Lib/importlib/_bootstrap.py).
fn missing(error: &Error) -> Option<String> {
    let Error::Python { type_name, message, .. } = error else { return None };
    let rest = message.strip_prefix("No module named '")?;
    let module = rest.strip_suffix('\'')?;
    (type_name == "ModuleNotFoundError" && !module.contains('\'')).then(|| module.to_owned())
}

/// The last frame of a traceback that is one of a file (`File "/a/model.py", line 3, in f`), as `/a/model.py:3`.
fn last_file(traceback: &str) -> Option<String> {
    let frame = |line: &str| {
        let rest = line.trim_start().strip_prefix("File \"")?;
        let (path, rest) = rest.split_once("\", line ")?;
        let number: u32 = rest.split(',').next()?.parse().ok()?;
        path.starts_with('/').then(|| format!("{path}:{number}"))
    };
    traceback.lines().rev().find_map(frame)
}

//! What a version of a model is loaded from, and why that may fail.

use crate::apart::Apart;
use crate::config::{ConfigDraft, ConfigError, ModelConfig};
use crate::limits::{Defaults, ModelImports};
use crate::python::{self, Context, Instance, Place, Told};
use crate::statistics::Counters;
use crate::warmup::Samples;
use hydrozoa::{Builder, Error, ImportProfile, Imports, Pool};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
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
    /// The interpreters did not start, or the model raised an exception.
    #[error("model `{model}`, version {version}: {source}")]
    Python {
        /// The model.
        model: String,
        /// The version.
        version: i64,
        /// What failed.
        source: Box<hydrozoa::Error>,
    },
    /// A request of `model_warmup` cannot be made, or the model has answered it with an error.
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

/// What a version is loaded from.
pub(crate) struct Source {
    /// The model's folder.
    pub(crate) directory: PathBuf,
    pub(crate) draft: Arc<ConfigDraft>,
    pub(crate) version: i64,
    /// Makes the interpreters of a model.
    pub(crate) builder: Builder,
    pub(crate) context: Context,
    pub(crate) limits: Defaults,
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

impl Source {
    pub(crate) fn name(&self) -> &str {
        self.draft.name()
    }

    pub(crate) fn has_limits(&self) -> bool {
        self.limits.execution_limit.is_some() || self.limits.initialization_limit.is_some()
    }

    pub(crate) fn no_thread(&self, source: io::Error) -> LoadError {
        LoadError::Thread { model: self.name().to_owned(), source }
    }

    fn failed(&self, source: Error) -> LoadError {
        LoadError::python(self.name(), self.version, source)
    }

    fn configured(&self, source: ConfigError) -> LoadError {
        LoadError::Config { model: self.name().to_owned(), source }
    }

    fn place(&self) -> Place<'_> {
        Place {
            directory: &self.directory,
            version: self.version,
            file_name: self.draft.file_name(),
        }
    }

    /// How the interpreters are made, apart from their number and their imports.
    fn builder(&self) -> Result<Builder, LoadError> {
        // Who has an instance replaces it, since another one must be initialized.
        let mut builder = self.builder.clone().replace_stuck(false);
        if let Some(environment) = self.draft.parameter(ENVIRONMENT) {
            let path = self::environment(environment, &self.directory)
                .map_err(|problem| self.configured(ConfigError::parameter(ENVIRONMENT, problem)))?;
            builder = builder.venv(path);
        }
        Ok(match self.limits.memory_limit {
            Some(bytes) => builder.memory_limit(bytes),
            None => builder,
        })
    }

    /// The interpreters, one for each instance, and the configuration as the model completes it.
    pub(crate) fn prepare(
        self: &Arc<Self>,
        count: usize,
    ) -> Result<(Pool, ModelConfig), LoadError> {
        let builder = self.builder()?;
        let imports = match &self.limits.imports {
            ModelImports::Eager => None,
            ModelImports::Recorded => self.record(builder.clone())?,
            ModelImports::Profile(path) => {
                Some(ImportProfile::load(path).map_err(|error| self.failed(error))?)
            }
        };
        let builder = match imports {
            Some(profile) => builder.imports(Imports::Profile(profile)),
            None => builder,
        };
        let source = self.clone();
        Apart::run(self, move |apart| {
            let pool = builder.interpreters(count).build().map_err(|error| source.failed(error))?;
            python::prepare(&pool).map_err(|error| source.failed(error))?;
            let config = source.complete(apart, &pool)?;
            Ok((pool, config))
        })
    }

    /// The configuration as the model completes it, in a pool's first interpreter.
    fn complete<T: Send + 'static>(
        &self,
        apart: &Arc<Apart<T>>,
        pool: &Pool,
    ) -> Result<ModelConfig, LoadError> {
        let session = pool.acquire_on(0).map_err(|error| self.failed(error))?;
        let text = self.draft.json().to_string();
        let completed = apart.limited(pool, &session, "auto_complete_config", || {
            python::complete(&session, &self.context, self.place(), &text)
        })?;
        ModelConfig::of_json(&completed, self.name()).map_err(|error| self.configured(error))
    }

    /// Records what an instance imports until it is warm. `None` if there is no profile that gives the same results: the log
    /// says why.
    fn record(self: &Arc<Self>, builder: Builder) -> Result<Option<ImportProfile>, LoadError> {
        let source = self.clone();
        Apart::run(self, move |apart| {
            // All runs get the same requests.
            let samples = OnceLock::new();
            let recorded = builder.record_imports(|pool| {
                source.rehearse(apart, pool, &samples).map_err(|error| match error {
                    LoadError::Python { source, .. } => *source,
                    // An exception says that this way of importing does not work.
                    other => Error::raise("RuntimeError", other.to_string()),
                })
            });
            Ok(match recorded {
                Ok(profile) => {
                    let (needed, left_out) = (profile.needed().count(), profile.left_out().count());
                    tracing::info!(
                        model = source.name(),
                        "a profile of imports: {needed} modules are needed, {left_out} are left out"
                    );
                    Some(profile)
                }
                Err(error) => {
                    let model = source.name();
                    tracing::warn!(model, "no profile of imports, so it imports eagerly: {error}");
                    None
                }
            })
        })
    }

    /// What an instance does until it serves. Returns a digest of what it answers.
    fn rehearse<T: Send + 'static>(
        &self,
        apart: &Arc<Apart<T>>,
        pool: &Pool,
        samples: &OnceLock<Samples>,
    ) -> Result<u64, LoadError> {
        python::prepare(pool).map_err(|error| self.failed(error))?;
        let config = self.complete(apart, pool)?;
        if samples.get().is_none() {
            let _ = samples.set(Samples::new(&config, &self.directory, self.version)?);
        }
        let samples = samples.get().expect("it was set just now");
        let session = pool.acquire_on(0).map_err(|error| self.failed(error))?;
        let told = Told {
            model: self.name(),
            config: &config.json().to_string(),
            is_decoupled: config.is_decoupled(),
            name: self.name(),
            kind: "CPU",
            device: 0,
        };
        let start = || Instance::start(&session, &self.context, self.place(), told);
        let instance = apart.limited(pool, &session, "initialize", start)?;
        let execute = |batch| {
            instance.execute(batch, &Counters::default(), None);
        };
        let warm_up = || Ok(samples.run(self.name(), &execute));
        let digest = apart.limited(pool, &session, "model_warmup", warm_up)??;
        apart.limited(pool, &session, "finalize", || instance.finalize())?;
        Ok(digest)
    }
}

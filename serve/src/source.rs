//! What a version of a model is loaded from, and what it becomes: interpreters, a configuration, and what instances run.

use crate::activity::Activity;
use crate::apart::Apart;
use crate::config::{CONFIG_FILE, ConfigDraft, ConfigError, ModelConfig};
use crate::interpreters::{Interpreters, Settings};
use crate::limits::{Defaults, ModelImports};
use crate::load::LoadError;
use crate::package::{self, Packaged};
use crate::placement::instances;
use crate::python::{self, Context, Instance, Place, Told};
use crate::statistics::Counters;
use crate::warmup::{EXAMPLE, Samples};
use hydrozoa::package::Archive;
use hydrozoa::{Builder, Error, ImportProfile, Imports, Pool, Session};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// What a version is loaded from.
pub(crate) struct Source {
    /// The model's folder, or that of a package which lies alone.
    pub(crate) directory: PathBuf,
    /// The file of the version that has the model.
    pub(crate) file: PathBuf,
    pub(crate) draft: ConfigDraft,
    pub(crate) version: i64,
    /// Makes the interpreters of a model.
    pub(crate) builder: Builder,
    pub(crate) context: Context,
    pub(crate) limits: Defaults,
    /// The interpreters of a former version of the model, which this one replaces.
    pub(crate) former: Option<Arc<Interpreters>>,
    /// The folder, if it was made for the load.
    pub(crate) made: Option<Arc<TempDir>>,
}

/// What a source has become.
pub(crate) struct Prepared {
    pub(crate) interpreters: Arc<Interpreters>,
    /// As the model or its package completes it.
    pub(crate) config: ModelConfig,
    pub(crate) content: Content,
}

/// What instances run.
#[derive(Clone)]
pub(crate) enum Content {
    /// A file in the version's folder.
    Python {
        directory: PathBuf,
        version: i64,
        file_name: String,
    },
    Package(Arc<Packaged>),
}

impl Content {
    /// What the start of an instance is, for who hears that it takes too long.
    pub(crate) fn start(&self) -> &'static str {
        match self {
            Content::Python { .. } => "initialize",
            Content::Package(_) => "load",
        }
    }

    /// Makes an instance, and initializes it.
    pub(crate) fn instance<'s>(
        &self,
        session: &'s Session,
        context: &Context,
        told: Told<'_>,
    ) -> hydrozoa::Result<Instance<'s>> {
        match self {
            Content::Python { directory, version, file_name } => {
                let place = Place { directory, version: *version, file_name };
                Instance::start(session, context, place, told)
            }
            Content::Package(package) => Instance::of_package(session, context, package, told),
        }
    }
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

    pub(crate) fn failed(&self, source: Error) -> LoadError {
        LoadError::python(self.name(), self.version, source)
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

    /// Finds or starts the interpreters, and completes the configuration.
    pub(crate) fn prepare(self: &Arc<Self>) -> Result<Prepared, LoadError> {
        let archive = self.draft.is_package().then(|| package::open(self)).transpose()?;
        let environment = self.environment()?;
        let builder = self.builder(environment.as_deref());
        let profile = self.profile(&builder, archive.as_ref())?;
        let settings = Settings {
            is_package: archive.is_some(),
            count: instances(self.draft.groups()).len().max(1),
            environment,
            memory_limit: self.limits.memory_limit,
            imports: profile.as_ref().map(ToString::to_string),
        };
        let source = self.clone();
        Apart::run(self, move |apart| {
            let interpreters = source.interpreters(builder, settings, profile)?;
            let content = source.content(apart, interpreters.pool(), archive);
            let (config, content) = content.inspect_err(|_| {
                // What a package has left in the interpreters of the one that serves.
                if Arc::strong_count(&interpreters) > 1 {
                    interpreters.sweep();
                }
            })?;
            Ok(Prepared { interpreters, config, content })
        })
    }

    /// The virtual environment that the model names.
    fn environment(&self) -> Result<Option<PathBuf>, LoadError> {
        let named = self.draft.parameter(ENVIRONMENT);
        let found = named.map(|text| environment(text, &self.directory)).transpose();
        found.map_err(|problem| self.configured(ConfigError::parameter(ENVIRONMENT, problem)))
    }

    /// How the interpreters are made, apart from their number and their imports.
    fn builder(&self, environment: Option<&Path>) -> Builder {
        // Who has an instance replaces it, since another one must be initialized.
        let mut builder = self.builder.clone().replace_stuck(false);
        if let Some(environment) = environment {
            builder = builder.venv(environment);
        }
        match self.limits.memory_limit {
            Some(bytes) => builder.memory_limit(bytes),
            None => builder,
        }
    }

    /// The profile by which the interpreters import: that of the model's file, that of its package, or one that is recorded now. `None` if
    /// the server's builder decides.
    fn profile(
        self: &Arc<Self>,
        builder: &Builder,
        archive: Option<&Archive>,
    ) -> Result<Option<ImportProfile>, LoadError> {
        if let ModelImports::Profile(path) = &self.limits.imports {
            return ImportProfile::load(path).map(Some).map_err(|error| self.failed(error));
        }
        let own = archive.map(Archive::imports).transpose();
        match own.map_err(|error| self.failed(error.into()))? {
            // It was recorded when the package was built.
            Some(Imports::Profile(profile)) => Ok(Some(profile)),
            _ if self.limits.imports == ModelImports::Recorded => {
                self.record(builder.clone(), archive.cloned())
            }
            _ => Ok(None),
        }
    }

    /// Interpreters that serve a former package of the model take another one, too, if they are as it needs them: it finds no trace of the
    /// former there. Else they are new ones.
    fn interpreters(
        &self,
        builder: Builder,
        settings: Settings,
        profile: Option<ImportProfile>,
    ) -> Result<Arc<Interpreters>, LoadError> {
        let former = self.former.as_ref().filter(|_| settings.is_package);
        if let Some(former) = former.filter(|former| former.fits(&settings)) {
            return Ok(former.clone());
        }
        let started = Interpreters::start(self.name(), builder, settings, profile);
        let started = started.map_err(|error| self.failed(error))?;
        python::prepare(started.pool()).map_err(|error| self.failed(error))?;
        Ok(Arc::new(started))
    }

    /// The configuration as the model completes it in a pool's first interpreter, and what instances run.
    fn content<T: Send + 'static>(
        &self,
        apart: &Arc<Apart<T>>,
        pool: &Pool,
        archive: Option<Archive>,
    ) -> Result<(ModelConfig, Content), LoadError> {
        if let Some(archive) = archive {
            let (config, packaged) = Packaged::load(self, apart, pool, archive)?;
            return Ok((config, Content::Package(Arc::new(packaged))));
        }
        let session = pool.acquire_on(0).map_err(|error| self.failed(error))?;
        let (directory, file_name) = (&*self.directory, self.draft.file_name());
        let place = Place { directory, version: self.version, file_name };
        let text = self.draft.json().to_string();
        let completed = apart.limited(pool, &session, "auto_complete_config", || {
            python::complete(&session, &self.context, place, &text)
        })?;
        let config = ModelConfig::of_json(&completed, self.name());
        let config = config.map_err(|error| self.configured(error))?;
        let path = self.directory.join(CONFIG_FILE);
        let is_silent = config.inputs().is_empty() && config.outputs().is_empty();
        // A load with files has a configuration.
        if is_silent && self.made.is_none() && !path.exists() {
            return Err(LoadError::NoTensors { model: self.name().to_owned(), path });
        }
        let content = Content::Python {
            directory: directory.to_owned(),
            version: self.version,
            file_name: config.file_name().to_owned(),
        };
        Ok((config, content))
    }

    /// Records what an instance imports until it is warm. `None` if there is no profile that gives the same results: the log
    /// says why.
    fn record(
        self: &Arc<Self>,
        builder: Builder,
        archive: Option<Archive>,
    ) -> Result<Option<ImportProfile>, LoadError> {
        let source = self.clone();
        Apart::run(self, move |apart| {
            // All runs get the same requests.
            let samples = OnceLock::new();
            let recorded = builder.record_imports(|pool| {
                let rehearsed = source.rehearse(apart, pool, archive.clone(), &samples);
                rehearsed.map_err(|error| match error {
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
        archive: Option<Archive>,
        samples: &OnceLock<Samples>,
    ) -> Result<u64, LoadError> {
        python::prepare(pool).map_err(|error| self.failed(error))?;
        let (config, content) = self.content(apart, pool, archive)?;
        if samples.get().is_none() {
            let _ = samples.set(Samples::new(&config, &self.directory, self.version)?);
        }
        let samples = samples.get().expect("it was set just now");
        let session = pool.acquire_on(0).map_err(|error| self.failed(error))?;
        let first = instances(config.instance_groups()).into_iter().next();
        let (name, kind, device) = first.unwrap_or_else(|| (self.name().to_owned(), "CPU", 0));
        let told = Told {
            model: self.name(),
            config: &config.json().to_string(),
            is_decoupled: config.is_decoupled(),
            name: &name,
            kind,
            device,
        };
        let start = || content.instance(&session, &self.context, told);
        let instance = apart.limited(pool, &session, content.start(), start)?;
        let example = apart.limited(pool, &session, EXAMPLE, || instance.warm())?;
        samples.example(example)?;
        let activity = Activity::new(String::new());
        let execute = |batch| {
            instance.execute(batch, &Counters::default(), &activity, None);
        };
        let warm_up = || Ok(samples.run(self.name(), &execute));
        let digest = apart.limited(pool, &session, "model_warmup", warm_up)??;
        apart.limited(pool, &session, "finalize", || instance.finalize())?;
        Ok(digest)
    }
}

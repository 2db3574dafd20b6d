//! The source of a model's version, and its products: interpreters, a configuration, and the content that instances run.

use crate::config::{
    CONFIG_FILE, ConfigDraft, ConfigError, Defaults, ModelConfig, ModelImports, instances,
};
use crate::execution::Crash;
use crate::figures::{Activity, Counters};
use crate::load::package::{self, Packaged};
use crate::load::{EXAMPLE, Interpreters, LoadError, LoadThread, Samples, Settings};
use crate::python::{self, Context, Executed, Instance, ModelFile, Told};
use hydrozoa::package::Archive;
use hydrozoa::{Builder, Error, ImportProfile, Imports, Pool, Session};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// The source of a version.
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

/// The products of a source.
pub(crate) struct Prepared {
    pub(crate) interpreters: Arc<Interpreters>,
    /// As the model or its package completes it.
    pub(crate) config: ModelConfig,
    pub(crate) content: Content,
}

/// The content that instances run.
#[derive(Clone)]
pub(crate) enum Content {
    Python(ModelFile),
    Package(Arc<Packaged>),
}

impl Content {
    /// The name of an instance's start, for the message that it takes too long.
    pub(crate) fn start(&self) -> &'static str {
        match self {
            Content::Python(_) => "initialize",
            Content::Package(_) => "load",
        }
    }

    /// Makes an instance, and initializes it.
    pub(crate) fn instance<'s>(
        &self,
        session: &'s Session,
        context: &Context,
        told: &Told,
    ) -> hydrozoa::Result<Instance<'s>> {
        match self {
            Content::Python(file) => Instance::start(session, context, file, told),
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
    Err(format!("{} is not a folder; a virtual environment is one", path.display()))
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

    /// The error of a package that cannot be a model.
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
            count: instances(self.draft.instance_groups()).len().max(1),
            environment,
            memory_limit: self.limits.memory_limit,
            imports: profile.as_ref().map(ToString::to_string),
            contain_crashes: self.limits.contain_crashes,
            dense: self.limits.dense.clone(),
        };
        let source = self.clone();
        LoadThread::run(self, move |thread| {
            let interpreters = source.interpreters(builder, settings, profile)?;
            let content = source.content(thread, interpreters.pool(), archive);
            let (config, content) = content.inspect_err(|_| {
                // The failed package left objects in the interpreters of the serving one.
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
        // The keeper of an instance replaces it, since the new one must be initialized.
        let mut builder = self.builder.clone().replace_stuck(false).replace_crashed(false);
        if self.limits.contain_crashes {
            builder = builder.contain_crashes(true);
        }
        if let Some(directory) = &self.limits.dense {
            builder = builder.dense(directory);
        }
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
        thread: &Arc<LoadThread<T>>,
        pool: &Pool,
        archive: Option<Archive>,
    ) -> Result<(ModelConfig, Content), LoadError> {
        if let Some(archive) = archive {
            let (config, packaged) = Packaged::load(self, thread, pool, archive)?;
            return Ok((config, Content::Package(Arc::new(packaged))));
        }
        let session = pool.acquire_on(0).map_err(|error| self.failed(error))?;
        let file = |name: &str| ModelFile::new(&self.directory, self.version, name);
        let draft = file(self.draft.file_name());
        let text = self.draft.json().to_string();
        let completed = thread.limited(pool, &session, "auto_complete_config", || {
            python::complete(&session, &self.context, &draft, &text)
        })?;
        let config = ModelConfig::of_json(&completed, self.name());
        let config = config.map_err(|error| self.configured(error))?;
        let path = self.directory.join(CONFIG_FILE);
        let is_silent = config.inputs().is_empty() && config.outputs().is_empty();
        // A load with files has a configuration.
        if is_silent && self.made.is_none() && !path.exists() {
            return Err(LoadError::NoTensors { model: self.name().to_owned(), path });
        }
        let content = Content::Python(file(config.file_name()));
        Ok((config, content))
    }

    /// Records what an instance imports until it is warm. `None` if no profile gives the same results; the log says why.
    fn record(
        self: &Arc<Self>,
        builder: Builder,
        archive: Option<Archive>,
    ) -> Result<Option<ImportProfile>, LoadError> {
        let source = self.clone();
        LoadThread::run(self, move |thread| {
            // All runs get the same requests.
            let samples = OnceLock::new();
            let recorded = builder.record_imports(|pool| {
                let rehearsed = source.rehearse(thread, pool, archive.clone(), &samples);
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

    /// Takes an instance through its start until it could serve. Returns a digest of its answers.
    fn rehearse<T: Send + 'static>(
        &self,
        thread: &Arc<LoadThread<T>>,
        pool: &Pool,
        archive: Option<Archive>,
        samples: &OnceLock<Samples>,
    ) -> Result<u64, LoadError> {
        python::prepare(pool).map_err(|error| self.failed(error))?;
        let (config, content) = self.content(thread, pool, archive)?;
        if samples.get().is_none() {
            let _ = samples.set(Samples::new(&config, &self.directory, self.version)?);
        }
        let samples = samples.get().expect("it was set just now");
        let session = pool.acquire_on(0).map_err(|error| self.failed(error))?;
        let first = instances(config.instance_groups()).into_iter().next();
        let (name, kind, device) = first.unwrap_or_else(|| (self.name().to_owned(), "CPU", 0));
        let (text, is_decoupled) = (config.json().to_string(), config.is_decoupled());
        let told = Told { config: text, name, kind, device, is_decoupled };
        let start = || content.instance(&session, &self.context, &told);
        let instance = thread.limited(pool, &session, content.start(), start)?;
        let example = thread.limited(pool, &session, EXAMPLE, || instance.warm())?;
        samples.example(example)?;
        let activity = Activity::new(String::new());
        let execute = |batch| {
            let executed = instance.execute(batch, &Counters::default(), &activity, None);
            if let Executed::Crashed(crashed) = executed {
                let crash =
                    Crash { model: self.name(), instance: &told.name, report: &crashed.report };
                crashed.fail(&crash.failure());
            }
        };
        let warm_up = || Ok(samples.run(self.name(), &execute));
        let digest = thread.limited(pool, &session, "model_warmup", warm_up)??;
        thread.limited(pool, &session, "finalize", || instance.finalize())?;
        Ok(digest)
    }
}

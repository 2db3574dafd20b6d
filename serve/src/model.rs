//! One version of a model: its interpreters, its queue, and the threads that bring them together.

use crate::activity::{Activity, InstanceState};
use crate::check;
use crate::config::{ConfigDraft, ConfigError, InstanceGroup, Kind, ModelConfig};
use crate::failure::{Code, Failure};
use crate::pending::{Begun, Pending};
use crate::python::{self, Context, Instance, Place, Told};
use crate::request::{Event, Request};
use crate::schedule::Scheduler;
use crate::statistics::{Counters, Ended, Latencies, Statistics};
use crate::warmup::Samples;
use hydrozoa::{Builder, Pool};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
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

/// A version of a model that serves.
pub struct Model {
    config: ModelConfig,
    version: i64,
    scheduler: Arc<Scheduler>,
    counters: Arc<Counters>,
    /// What the instances do, in the order of their interpreters.
    activities: Vec<Arc<Activity>>,
    instances: Mutex<Vec<JoinHandle<()>>>,
    /// `None` after the end.
    pool: Mutex<Option<Pool>>,
    /// The folder that was made for it, if the load had files.
    _made: Option<Arc<TempDir>>,
}

/// What a version is loaded from.
pub(crate) struct Source<'a> {
    /// The model's folder.
    pub(crate) directory: &'a Path,
    pub(crate) draft: &'a ConfigDraft,
    pub(crate) version: i64,
    /// Makes the interpreters of a model.
    pub(crate) builder: &'a (dyn Fn() -> Builder + Send + Sync),
    pub(crate) context: Context,
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
    fn name(&self) -> &str {
        self.draft.name()
    }

    fn failed(&self, source: hydrozoa::Error) -> LoadError {
        LoadError::Python {
            model: self.name().to_owned(),
            version: self.version,
            source: source.into(),
        }
    }

    fn configured(&self, source: ConfigError) -> LoadError {
        LoadError::Config { model: self.name().to_owned(), source }
    }

    /// The interpreters, one for each instance.
    fn pool(&self, count: usize) -> Result<Pool, LoadError> {
        let mut builder = (self.builder)().interpreters(count);
        if let Some(environment) = self.draft.parameter(ENVIRONMENT) {
            let path = self::environment(environment, self.directory)
                .map_err(|problem| self.configured(ConfigError::parameter(ENVIRONMENT, problem)))?;
            builder = builder.venv(path);
        }
        let pool = builder.build().map_err(|error| self.failed(error))?;
        python::prepare(&pool).map_err(|error| self.failed(error))?;
        Ok(pool)
    }

    fn place(&self) -> Place<'_> {
        Place {
            directory: self.directory,
            version: self.version,
            file_name: self.draft.file_name(),
        }
    }
}

/// The names of a model's instances, with where they run.
fn instances(groups: &[InstanceGroup]) -> Vec<(String, &'static str, i32)> {
    let mut all = Vec::new();
    for group in groups {
        let (kind, devices) = match group.kind {
            Kind::Gpu => ("GPU", if group.gpus.is_empty() { vec![0] } else { group.gpus.clone() }),
            Kind::Model => ("MODEL", vec![0]),
            Kind::Auto | Kind::Cpu => ("CPU", vec![0]),
        };
        for device in &devices {
            for number in 0..group.count {
                let name = match kind {
                    "GPU" => format!("{}_{number}_gpu{device}", group.name),
                    _ => format!("{}_{number}", group.name),
                };
                all.push((name, kind, *device));
            }
        }
    }
    all
}

impl Model {
    /// Starts the interpreters, completes the configuration, and initializes all instances.
    pub(crate) fn load(source: &Source<'_>) -> Result<Arc<Self>, LoadError> {
        let planned = instances(source.draft.groups()).len();
        let pool = source.pool(planned.max(1))?;
        let config = {
            let session = pool.acquire_on(0).map_err(|error| source.failed(error))?;
            let completed = python::complete(
                &session,
                &source.context,
                source.place(),
                &source.draft.json().to_string(),
            );
            let completed = completed.map_err(|error| source.failed(error))?;
            ModelConfig::of_json(&completed, source.name())
                .map_err(|error| source.configured(error))?
        };
        let names = instances(config.instance_groups()).into_iter().map(|(name, ..)| name);
        let activities: Vec<_> = names.map(|name| Arc::new(Activity::new(name))).collect();
        let model = Arc::new(Self {
            scheduler: Arc::new(Scheduler::new(&config, activities.len())),
            activities,
            config,
            version: source.version,
            counters: Arc::default(),
            instances: Mutex::default(),
            pool: Mutex::new(Some(pool.clone())),
            _made: source.made.clone(),
        });
        match model.start(source, &pool) {
            Ok(()) => Ok(model),
            Err(error) => {
                drop(pool);
                model.unload();
                Err(error)
            }
        }
    }

    /// Starts a thread for each instance, and waits until all have initialized their object and are warm.
    fn start(&self, source: &Source<'_>, pool: &Pool) -> Result<(), LoadError> {
        let samples = Arc::new(Samples::new(&self.config, source.directory, self.version)?);
        let (sender, started) = channel();
        let all = instances(self.config.instance_groups());
        let count = all.len();
        for (index, (name, kind, device)) in all.into_iter().enumerate() {
            let runs = Runs {
                pool: pool.clone(),
                index,
                name: name.clone(),
                kind,
                device,
                context: source.context.clone(),
                directory: source.directory.to_owned(),
                version: self.version,
                config: self.config.clone(),
                samples: samples.clone(),
                scheduler: self.scheduler.clone(),
                counters: self.counters.clone(),
                activity: self.activities[index].clone(),
            };
            let sender = sender.clone();
            let thread = thread::Builder::new()
                .name(name)
                .stack_size(STACK)
                .spawn(move || runs.run(sender))
                .map_err(|error| LoadError::Thread {
                    model: source.name().to_owned(),
                    source: error,
                })?;
            self.instances.lock().push(thread);
        }
        drop(sender);
        let outcomes: Vec<_> = started.iter().take(count).collect();
        outcomes.into_iter().collect()
    }

    /// The model's configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The version.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The model's interpreters. `None` when it was unloaded.
    pub fn pool(&self) -> Option<Pool> {
        self.pool.lock().clone()
    }

    /// Requests that wait for an instance.
    pub fn waiting(&self) -> usize {
        self.scheduler.len()
    }

    /// For how long the request has waited that has waited longest. `None` if none waits.
    pub fn longest_wait(&self) -> Option<Duration> {
        self.scheduler.oldest().map(|since| since.elapsed())
    }

    /// How long its requests have taken in the last minute.
    pub fn latencies(&self) -> Latencies {
        self.counters.latencies()
    }

    /// What its instances do, in the order of their interpreters.
    pub fn instances(&self) -> Vec<InstanceState> {
        let pool = self.pool();
        let interpreters = pool.as_ref().map(Pool::interpreters);
        let all = self.activities.iter().enumerate();
        all.map(|(index, activity)| {
            let interpreter = interpreters.as_ref().and_then(|all| all.get(index));
            let restarts = interpreter.map_or(0, |interpreter| interpreter.generation() as u64);
            activity.read(index, restarts)
        })
        .collect()
    }

    /// What it has done so far.
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// Runs a request. `respond` gets its events, on whatever thread has them: any number of responses, of which the last
    /// is marked, or an error. It must not wait.
    ///
    /// The request is cancelled when the ticket is dropped.
    pub fn infer(&self, request: Request, respond: impl FnMut(Event) + Send + 'static) -> Ticket {
        let size = self.check(&request);
        self.admit(request, size, respond).ticket()
    }

    /// How many places of a batch a request takes, or why it cannot have any.
    pub(crate) fn check(&self, request: &Request) -> Result<usize, Failure> {
        check::check(request, &self.config)
    }

    /// Puts a request that was checked into the queue. One that cannot be there is told so later, by [`Admitted::ticket`]: the caller may
    /// hold a lock.
    pub(crate) fn admit(
        &self,
        mut request: Request,
        checked: Result<usize, Failure>,
        mut respond: impl FnMut(Event) + Send + 'static,
    ) -> Admitted {
        let began = Instant::now();
        let size = *checked.as_ref().unwrap_or(&1);
        if request.outputs.is_empty() {
            // A model of Triton's is told all their names then.
            request.outputs =
                self.config.outputs().iter().map(|output| output.name.clone()).collect();
        }
        let (counters, begun) = (self.counters.clone(), Begun::default());
        let taken = begun.clone();
        let respond = move |event: Event| {
            if event.is_final {
                let ended = match &event.response {
                    Some(Err(failure)) => Ended::of(failure.code, taken.at().is_some()),
                    _ => Ended::Success,
                };
                counters.ended(size, ended, began.elapsed());
            }
            respond(event);
        };
        let is_decoupled = self.config.is_decoupled();
        let pending = Pending::with_begun(Box::new(respond), is_decoupled, begun.clone());
        let pending = Arc::new(pending);
        let put = |size| self.scheduler.put(self.config.name(), request, pending.clone(), size);
        let refused = checked.and_then(put).err();
        Admitted { pending, begun, refused }
    }

    /// Takes no further requests, serves those that wait, and ends the instances and their interpreters.
    pub(crate) fn unload(&self) {
        self.scheduler.close();
        let threads = std::mem::take(&mut *self.instances.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!(model = self.config.name(), "a thread of an instance has panicked");
            }
        }
        let failure =
            Failure::new(Code::Unavailable, format!("model '{}' was unloaded", self.config.name()));
        self.scheduler.fail_all(&failure);
        let pool = self.pool.lock().take();
        if let Some(Err(error)) = pool.map(|pool| pool.close(CLOSE)) {
            tracing::info!(model = self.config.name(), "its interpreters end later: {error}");
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.scheduler.close();
    }
}

/// How long an unloaded model's interpreters are waited for.
pub(crate) const CLOSE: Duration = Duration::from_secs(1);

/// Bytes of an instance's stack, as main threads have.
pub(crate) const STACK: usize = 8 << 20;

/// What an instance's thread needs.
struct Runs {
    pool: Pool,
    index: usize,
    name: String,
    kind: &'static str,
    device: i32,
    context: Context,
    directory: PathBuf,
    version: i64,
    config: ModelConfig,
    samples: Arc<Samples>,
    scheduler: Arc<Scheduler>,
    counters: Arc<Counters>,
    activity: Arc<Activity>,
}

impl Runs {
    /// Initializes the instance and warms it up, says so, serves until the scheduler is closed, and ends it.
    fn run(self, started: Sender<Result<(), LoadError>>) {
        let session = match self.pool.acquire_on(self.index) {
            Ok(session) => session,
            Err(error) => return drop(started.send(Err(self.failed(error)))),
        };
        let place = Place {
            directory: &self.directory,
            version: self.version,
            file_name: self.config.file_name(),
        };
        let told = Told {
            model: self.config.name(),
            config: &self.config.json().to_string(),
            is_decoupled: self.config.is_decoupled(),
            name: &self.name,
            kind: self.kind,
            device: self.device,
        };
        let instance = match Instance::start(&session, &self.context, place, told) {
            Ok(instance) => instance,
            Err(error) => return drop(started.send(Err(self.failed(error)))),
        };
        let warm = self.samples.run(&instance, &self.name);
        let is_warm = warm.is_ok();
        // Nobody listens if another instance has failed. Then the scheduler is closed soon.
        drop(started.send(warm));
        if is_warm {
            while let Some(batch) = self.scheduler.next(self.index) {
                instance.execute(batch, &self.counters, &self.activity);
            }
        }
        if let Err(error) = instance.finalize() {
            tracing::error!(
                model = self.config.name(),
                instance = self.name,
                "finalize: {}",
                error.traceback().unwrap_or(&error.to_string())
            );
        }
    }

    fn failed(&self, source: hydrozoa::Error) -> LoadError {
        LoadError::Python {
            model: self.config.name().to_owned(),
            version: self.version,
            source: source.into(),
        }
    }
}

/// A request in the queue, or one that cannot be there.
pub(crate) struct Admitted {
    pending: Arc<Pending>,
    begun: Begun,
    refused: Option<Failure>,
}

impl Admitted {
    /// Tells the client if the request was refused.
    pub(crate) fn ticket(self) -> Ticket {
        let ticket = Ticket { request: Arc::downgrade(&self.pending), begun: self.begun };
        if let Some(failure) = self.refused {
            self.pending.fail(failure);
        }
        ticket
    }
}

/// A request under way. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct Ticket {
    request: Weak<Pending>,
    begun: Begun,
}

impl Ticket {
    /// Tells the model that nobody waits any more. A request that still waits in the queue leaves it.
    pub fn cancel(&self) {
        if let Some(pending) = self.request.upgrade() {
            pending.cancel();
        }
    }

    /// Whether its last response was given.
    pub fn has_ended(&self) -> bool {
        self.request.upgrade().is_none_or(|pending| pending.has_ended())
    }

    /// When an instance has taken it out of the queue. `None` before.
    pub fn begun(&self) -> Option<Instant> {
        self.begun.at()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// The versions that a model's folder has.
pub(crate) fn versions(directory: &Path, file_name: &str) -> io::Result<Vec<i64>> {
    let mut versions = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('0')) else { continue };
        let Ok(version) = name.parse::<i64>() else { continue };
        if version > 0 && directory.join(name).join(file_name).is_file() {
            versions.push(version);
        }
    }
    Ok(versions)
}

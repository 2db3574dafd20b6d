//! One version of a model: its interpreters, its queue, and the threads that bring them together.

use crate::check;
use crate::config::{InstanceGroup, Kind, ModelConfig};
use crate::failure::{Code, Failure};
use crate::health::{Condition, Health};
use crate::keeper::Runs;
use crate::load::{LoadError, Source};
use crate::pending::Pending;
use crate::request::{Event, Request};
use crate::schedule::Scheduler;
use crate::statistics::{Counters, Statistics};
use crate::warmup::Samples;
use crate::watchdog;
use hydrozoa::Pool;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{fs, io};

/// A version of a model that serves.
pub struct Model {
    config: ModelConfig,
    version: i64,
    scheduler: Arc<Scheduler>,
    counters: Arc<Counters>,
    health: Arc<Health>,
    /// `None` after the end.
    pool: Mutex<Option<Pool>>,
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
    pub(crate) fn load(source: &Arc<Source>) -> Result<Arc<Self>, LoadError> {
        if source.has_limits() {
            watchdog::start().map_err(|error| source.no_thread(error))?;
        }
        let planned = instances(source.draft.groups()).len();
        let (pool, config) = source.prepare(planned.max(1))?;
        let count = instances(config.instance_groups()).len();
        let model = Arc::new(Self {
            scheduler: Arc::new(Scheduler::new(&config, count)),
            config,
            version: source.version,
            counters: Arc::default(),
            health: Arc::new(Health::new(count)),
            pool: Mutex::new(Some(pool.clone())),
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
    fn start(&self, source: &Source, pool: &Pool) -> Result<(), LoadError> {
        let all = instances(self.config.instance_groups());
        let end_from = |index| {
            (index..all.len()).for_each(|index| self.health.set(index, Condition::Ended));
        };
        let samples = Samples::new(&self.config, &source.directory, self.version);
        let samples = Arc::new(samples.inspect_err(|_| end_from(0))?);
        let (sender, started) = channel();
        for (index, (name, kind, device)) in all.iter().cloned().enumerate() {
            let runs = Arc::new(Runs {
                pool: pool.clone(),
                index,
                name,
                kind,
                device,
                context: source.context.clone(),
                directory: source.directory.clone(),
                version: self.version,
                config: self.config.clone(),
                samples: samples.clone(),
                scheduler: self.scheduler.clone(),
                counters: self.counters.clone(),
                limits: source.limits.clone(),
                health: self.health.clone(),
                started: Mutex::new(Some(sender.clone())),
                failures: AtomicU32::new(0),
            });
            let started = runs.start(true).inspect_err(|_| end_from(index));
            started.map_err(|error| source.no_thread(error))?;
        }
        drop(sender);
        let outcomes: Vec<_> = started.iter().take(all.len()).collect();
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

    /// Whether all instances serve. One that has not reacted to an interrupt does not, until another one is in its place.
    pub fn is_ready(&self) -> bool {
        self.problem().is_none()
    }

    /// Why it is not ready. `None` if it is.
    pub fn problem(&self) -> Option<String> {
        self.health.problem()
    }

    /// How many instances were replaced since it was loaded: they were stuck, or their memory was at its limit.
    pub fn replacements(&self) -> u64 {
        self.health.replacements()
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
        let counters = self.counters.clone();
        let respond = move |event: Event| {
            if event.is_final {
                let is_success = !matches!(event.response, Some(Err(_)));
                counters.ended(size, is_success, began.elapsed());
            }
            respond(event);
        };
        let pending = Arc::new(Pending::new(Box::new(respond), self.config.is_decoupled()));
        let put = |size| match self.health.refusal() {
            Some(words) => Err(Failure::new(Code::Unavailable, words)),
            None => self.scheduler.put(self.config.name(), request, pending.clone(), size),
        };
        let refused = checked.and_then(put).err();
        Admitted { pending, refused }
    }

    /// Takes no further requests, serves those that wait, and ends the instances and their interpreters.
    pub(crate) fn unload(&self) {
        self.scheduler.close();
        self.health.close();
        self.health.wait_for_end();
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
        self.health.close();
    }
}

/// How long an unloaded model's interpreters are waited for.
pub(crate) const CLOSE: Duration = Duration::from_secs(1);

/// A request in the queue, or one that cannot be there.
pub(crate) struct Admitted {
    pending: Arc<Pending>,
    refused: Option<Failure>,
}

impl Admitted {
    /// Tells the client if the request was refused.
    pub(crate) fn ticket(self) -> Ticket {
        let ticket = Ticket(Arc::downgrade(&self.pending));
        if let Some(failure) = self.refused {
            self.pending.fail(failure);
        }
        ticket
    }
}

/// A request under way. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct Ticket(Weak<Pending>);

impl Ticket {
    /// Tells the model that nobody waits any more. A request that still waits in the queue leaves it.
    pub fn cancel(&self) {
        if let Some(pending) = self.0.upgrade() {
            pending.cancel();
        }
    }

    /// Whether its last response was given.
    pub fn has_ended(&self) -> bool {
        self.0.upgrade().is_none_or(|pending| pending.has_ended())
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

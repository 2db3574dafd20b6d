//! One version of a model: its interpreters, its queue, and the threads that bring them together.

use crate::config::{ModelConfig, fitting, instances};
use crate::execution::watchdog;
use crate::figures::{Activity, BatchStatistics, Counters, InstanceState, Latencies, Statistics};
use crate::host::Respond;
use crate::instance::{Condition, Health, PATIENCE, Readiness, Restarts, Runs};
use crate::load::{Content, Interpreters, LoadError, Prepared, Samples, Source};
use crate::python;
use crate::queue::{Begun, Pending, Refusal, Scheduler};
use crate::request::{Code, Event, Failure, Request};
use hydrozoa::Pool;
use parking_lot::Mutex;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A version of a model that serves.
pub struct Model {
    config: ModelConfig,
    version: i64,
    scheduler: Arc<Scheduler>,
    counters: Arc<Counters>,
    /// The instances' work, in the order of their interpreters.
    activities: Vec<Arc<Activity>>,
    health: Arc<Health>,
    /// The instances' own answers on readiness, in the same order.
    readiness: Vec<Arc<Readiness>>,
    /// `None` after the end.
    interpreters: Mutex<Option<Arc<Interpreters>>>,
    /// The folder that was made for it, if the load had files.
    _made: Option<Arc<TempDir>>,
}

impl Model {
    /// Starts the interpreters, completes the configuration, and initializes all instances.
    pub(crate) fn load(source: &Arc<Source>) -> Result<Arc<Self>, LoadError> {
        if source.has_limits() {
            watchdog::start().map_err(|error| source.no_thread(error))?;
        }
        let Prepared { interpreters, config, content } = source.prepare()?;
        let names = instances(config.instance_groups()).into_iter().map(|(name, ..)| name);
        let activities: Vec<_> = names.map(|name| Arc::new(Activity::new(name))).collect();
        let model = Arc::new(Self {
            scheduler: Arc::new(Scheduler::new(&config, activities.len())),
            health: Arc::new(Health::new(activities.len())),
            readiness: activities.iter().map(|_| Arc::default()).collect(),
            activities,
            config,
            version: source.version,
            counters: Arc::default(),
            interpreters: Mutex::new(Some(interpreters.clone())),
            _made: source.made.clone(),
        });
        let started = model.start(source, &interpreters, content);
        drop(interpreters);
        if started.is_err() {
            model.unload();
        }
        started.map(|()| model)
    }

    /// Starts a thread for each instance, and waits until all have initialized their object and are warm.
    fn start(
        &self,
        source: &Source,
        interpreters: &Interpreters,
        content: Content,
    ) -> Result<(), LoadError> {
        let all = instances(self.config.instance_groups());
        let end_from = |index| {
            (index..all.len()).for_each(|index| self.health.set(index, Condition::Ended));
        };
        let samples = Samples::new(&self.config, &source.directory, self.version);
        let samples = Arc::new(samples.inspect_err(|_| end_from(0))?);
        let (sender, started) = channel();
        for (index, (name, kind, device)) in all.iter().cloned().enumerate() {
            let runs = Arc::new(Runs {
                pool: interpreters.pool().clone(),
                index,
                name,
                kind,
                device,
                context: source.context.clone(),
                content: content.clone(),
                version: self.version,
                config: self.config.clone(),
                samples: samples.clone(),
                scheduler: self.scheduler.clone(),
                counters: self.counters.clone(),
                activity: self.activities[index].clone(),
                limits: source.limits.clone(),
                health: self.health.clone(),
                readiness: self.readiness[index].clone(),
                started: Mutex::new(Some(sender.clone())),
                restarts: Restarts::default(),
                crashes: interpreters.crashes().clone(),
            });
            let started = runs.start(true).inspect_err(|_| end_from(index));
            started.map_err(|error| source.no_thread(error))?;
        }
        drop(content);
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
        self.interpreters().map(|interpreters| interpreters.pool().clone())
    }

    /// The same for a version that may take them over.
    pub(crate) fn interpreters(&self) -> Option<Arc<Interpreters>> {
        self.interpreters.lock().clone()
    }

    /// Requests that wait for an instance.
    pub fn waiting(&self) -> usize {
        self.scheduler.len()
    }

    /// How long the oldest waiting request has waited. `None` if none waits.
    pub fn longest_wait(&self) -> Option<Duration> {
        self.scheduler.oldest().map(|since| since.elapsed())
    }

    /// How long its requests have taken in the last minute.
    pub fn latencies(&self) -> Latencies {
        self.counters.latencies()
    }

    /// The states of its instances, in the order of their interpreters.
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

    /// Whether all instances serve. An instance that did not react to an interrupt, or has crashed, does not, until another one
    /// replaces it.
    pub fn is_ready(&self) -> bool {
        self.problem().is_none()
    }

    /// Why it is not ready. `None` if it is.
    pub fn problem(&self) -> Option<String> {
        self.health.problem()
    }

    /// The same, and instances whose model has an `is_ready` are asked: this runs Python, and waits for five seconds at most.
    /// While an instance has not answered, it is not asked again.
    ///
    /// `is_ready` returns a bool, as a function or a coroutine. Any other value or an exception counts as False.
    pub fn ask(&self) -> Option<String> {
        let problem = self.problem();
        let Some(pool) = self.pool().filter(|_| problem.is_none()) else { return problem };
        let deadline = Instant::now() + PATIENCE;
        let question = |index| {
            let pool = pool.clone();
            move || python::says_ready(&pool, index)
        };
        // All of them at once.
        let all = self.readiness.iter().enumerate();
        let asked: Vec<_> = all.map(|(index, one)| one.ask(question(index))).collect();
        let words = |index: usize, words: &str| {
            let instance = self.activities[index].name();
            format!("instance '{instance}' of model '{}': {words}", self.config.name())
        };
        asked.into_iter().enumerate().find_map(|(index, asked)| match asked {
            Ok(None) => None,
            Ok(Some(asked)) => match asked.wait_until(deadline) {
                Some(true) => None,
                Some(false) => Some(words(index, "its is_ready says no")),
                None => Some(words(index, "its is_ready has not answered within 5 s")),
            },
            Err(error) => {
                Some(words(index, &format!("the system gives no thread to ask it: {error}")))
            }
        })
    }

    /// How many instances were replaced since it was loaded: they were stuck, their memory was at its limit, or they have
    /// crashed.
    pub fn replacements(&self) -> u64 {
        self.health.replacements()
    }

    /// Its counters since it was loaded.
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// The time its calls took, by the size of their batches, the smallest first.
    pub fn batches(&self) -> Vec<BatchStatistics> {
        self.counters.batches()
    }

    /// Runs a request. `respond` gets its events, on whatever thread has them: any number of responses, of which the last
    /// is marked, or an error. It must not wait.
    ///
    /// The request is cancelled when the ticket is dropped.
    pub fn infer(&self, request: Request, respond: impl FnMut(Event) + Send + 'static) -> Ticket {
        self.admit(request, Box::new(respond)).unwrap_or_else(|(request, mut respond)| {
            let failure = Refusal::Closed(request).failure(self.config.name());
            respond(Event { response: Some(Err(failure)), is_final: true });
            Ticket { request: Weak::new(), begun: Begun::default() }
        })
    }

    /// Checks a request and puts it into the queue, or tells its client why it is refused.
    ///
    /// # Errors
    ///
    /// Request and client, if the model takes no further requests. They may go to the version that has replaced it.
    pub(crate) fn admit(
        &self,
        mut request: Request,
        respond: Respond,
    ) -> Result<Ticket, (Box<Request>, Respond)> {
        let checked = fitting::check(&request, &self.config);
        let size = *checked.as_ref().unwrap_or(&1);
        let names_no_output = request.outputs.is_empty();
        if names_no_output {
            // A model of Triton's is told all their names then.
            request.outputs =
                self.config.outputs().iter().map(|output| output.name.clone()).collect();
        }
        let is_decoupled = self.config.is_decoupled();
        let pending = Arc::new(Pending::counted(respond, is_decoupled, &self.counters, size));
        let ticket = Ticket { request: Arc::downgrade(&pending), begun: pending.begun() };
        let put = |size| match self.health.refusal() {
            Some(words) => Err(Failure::new(Code::Unavailable, words).into()),
            None => self.scheduler.put(self.config.name(), request, pending.clone(), size),
        };
        match checked.map_err(Refusal::from).and_then(put) {
            Ok(()) => {}
            Err(Refusal::Failed(failure)) => pending.fail(failure),
            Err(Refusal::Closed(mut request)) => {
                if names_no_output {
                    request.outputs.clear();
                }
                let respond = pending.release().expect("nobody else has the request");
                return Err((request, respond));
            }
        }
        Ok(ticket)
    }

    /// Takes no further requests, serves those that wait, and ends the instances and their interpreters.
    pub(crate) fn unload(&self) {
        self.scheduler.close();
        self.health.close();
        self.health.wait_for_end();
        let failure =
            Failure::new(Code::Unavailable, format!("model '{}' was unloaded", self.config.name()));
        self.scheduler.fail_all(&failure);
        // Without its instances nothing refers to a package any more. If another version took the interpreters over, they go on.
        let interpreters = self.interpreters.lock().take();
        if let Some(shared) = interpreters.filter(|shared| Arc::strong_count(shared) > 1) {
            shared.sweep();
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.scheduler.close();
        self.health.close();
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
    /// Tells the model that nobody waits any more. A queued request leaves the queue.
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

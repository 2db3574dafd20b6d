//! Keeps one instance of a model: runs its serving thread, and replaces a thread that does not react.

use crate::config::{Defaults, ModelConfig};
use crate::execution::{Crash, Crashes, Execution, Keeper, Late, STACK};
use crate::figures::{Activity, Counters};
use crate::instance::restarts::{Next, SOON};
use crate::instance::{Condition, Health, Readiness, Restarts};
use crate::load::{Content, EXAMPLE, LoadError, Samples};
use crate::python::{Context, Executed, Instance, Told};
use crate::queue::{Pending, Queued, Scheduler};
use crate::request::{Code, Failure};
use hydrozoa::{Error, Pool, Session};
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// A pause before another start from which on waiting requests are refused.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// The state that the threads of an instance share.
pub(crate) struct Runs {
    pub(crate) pool: Pool,
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) device: i32,
    pub(crate) context: Context,
    pub(crate) content: Content,
    pub(crate) version: i64,
    pub(crate) config: ModelConfig,
    pub(crate) samples: Arc<Samples>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) limits: Defaults,
    pub(crate) health: Arc<Health>,
    pub(crate) readiness: Arc<Readiness>,
    /// The channel that announces the first start. `None` once it was used.
    pub(crate) started: Mutex<Option<Sender<Result<(), LoadError>>>>,
    pub(crate) restarts: Restarts,
    /// The keepers that learn of crashes in the pool's interpreters.
    pub(crate) crashes: Arc<Crashes>,
}

/// How a thread's service ended.
enum End {
    /// The model was unloaded.
    Closed,
    /// Another thread has taken over.
    GivenUp,
    NotStarted(LoadError),
    /// Its memory is at the ceiling, and stays there.
    Exhausted,
}

/// One interpreter's time as the instance.
struct Tenure {
    runs: Arc<Runs>,
    /// Whether somebody has taken over what comes after it.
    is_claimed: AtomicBool,
    /// Whether another thread has, so that it gets no further requests.
    is_over: AtomicBool,
    /// Requests that it may have.
    given: Mutex<Vec<Weak<Pending>>>,
}

impl Drop for Tenure {
    fn drop(&mut self) {
        if *self.is_over.get_mut() {
            self.runs.health.came_back();
        }
    }
}

/// Marks the instance as ended when it is dropped, also by a panic of its thread.
struct Ends {
    health: Arc<Health>,
    index: usize,
    name: String,
    /// Whether another thread has taken over the instance.
    is_given_up: bool,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!(instance = self.name, "the thread of an instance has panicked");
        }
        if thread::panicking() || !self.is_given_up {
            self.health.set(self.index, Condition::Ended);
        }
    }
}

impl Runs {
    /// Starts the thread of an instance.
    pub(crate) fn start(self: Arc<Self>, is_first: bool) -> io::Result<()> {
        let thread = thread::Builder::new().name(self.name.clone()).stack_size(STACK);
        thread.spawn(move || self.run(is_first)).map(drop)
    }

    /// Serves until the scheduler is closed, or another thread has taken over the instance.
    fn run(self: Arc<Self>, is_first: bool) {
        let (health, name) = (self.health.clone(), self.name.clone());
        let mut ends = Ends { health, index: self.index, name, is_given_up: false };
        ends.is_given_up = self.is_given_up(is_first);
        // The thread that waits for the end frees the model's object.
        drop(self);
    }

    /// Serves. Returns whether another thread has taken over the instance; otherwise it has ended.
    fn is_given_up(self: &Arc<Self>, mut is_first: bool) -> bool {
        while is_first || self.renew() {
            match self.serve(is_first) {
                End::Closed => break,
                End::GivenUp => return true,
                End::Exhausted => {
                    let words = "its memory is at its limit; the instance is replaced";
                    tracing::error!(model = self.config.name(), instance = self.name, "{words}");
                    self.health.set(self.index, Condition::Replaced(self.problem(words)));
                    self.lose_sequences(words);
                }
                End::NotStarted(error) => {
                    let Some(Err(error)) = self.tell(Err(error)) else { break };
                    self.not_restarted(&error);
                }
            }
            is_first = false;
        }
        false
    }

    fn problem(&self, words: &str) -> String {
        format!("instance '{}' of model '{}': {words}", self.name, self.config.name())
    }

    /// Reports the outcome of the first start to its waiter. Gives it back if nobody waits any more.
    fn tell(&self, outcome: Result<(), LoadError>) -> Option<Result<(), LoadError>> {
        let Some(started) = self.started.lock().take() else { return Some(outcome) };
        // Nobody listens if another instance has failed. Then the scheduler is closed soon.
        drop(started.send(outcome));
        None
    }

    fn not_restarted(&self, error: &LoadError) {
        tracing::error!(instance = self.name, "the instance cannot be replaced: {error}");
        self.refuse(&format!("it cannot be replaced: {error}"));
    }

    fn crashed_too_often(&self, crashes: u32) {
        let words = format!(
            "given up, since it has crashed {crashes} times in a row, each time within {SOON:?} of serving; load the model again"
        );
        tracing::error!(model = self.config.name(), instance = self.name, "{words}");
        self.refuse(&words);
    }

    /// The instance does not serve for a while. If none does, requests are refused.
    fn refuse(&self, words: &str) {
        self.health.set(self.index, Condition::Failed(self.problem(words)));
        if let Some(words) = self.health.refusal() {
            self.scheduler.fail_all(&Failure::new(Code::Unavailable, words));
        }
    }

    fn lose_sequences(&self, words: &str) {
        let failure = Failure::new(Code::Unavailable, self.problem(words));
        self.scheduler.fail_instance(self.index, &failure);
    }

    /// Puts another interpreter in the place of this instance's, when it may. False if it shall not.
    fn renew(&self) -> bool {
        loop {
            let pause = match self.restarts.next(self.limits.crash_limit) {
                Next::Start(pause) => pause,
                Next::GivenUp(crashes) => {
                    self.crashed_too_often(crashes);
                    self.health.wait_for_close();
                    return false;
                }
            };
            if pause >= NOTICEABLE && self.health.is_replaced(self.index) {
                self.refuse(&format!("it has crashed, and is started again {pause:?} later"));
            }
            if !self.health.may_replace(pause) {
                return false;
            }
            match self.pool.replace(self.index) {
                Ok(former) => {
                    // The end of an interpreter may need a GIL that somebody keeps.
                    let ends = thread::Builder::new().name("former".to_owned());
                    if let Err(error) = ends.spawn(move || drop(former)) {
                        tracing::warn!("no thread to end an interpreter: {error}");
                    }
                    return true;
                }
                Err(error) => {
                    self.restarts.failed();
                    self.not_restarted(&self.failed(error));
                }
            }
        }
    }

    fn serve(self: &Arc<Self>, is_first: bool) -> End {
        // It has failed until it serves.
        if !is_first {
            self.restarts.failed();
        }
        let session = match self.pool.acquire_on(self.index) {
            Ok(session) => session,
            Err(error) => return End::NotStarted(self.failed(error)),
        };
        let tenure = Arc::new(Tenure {
            runs: self.clone(),
            is_claimed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            given: Mutex::default(),
        });
        let keeper: Arc<dyn Keeper> = tenure.clone();
        self.crashes.watch(session.interpreter(), &keeper);
        drop(keeper);
        let end = tenure.serve(&session, is_first);
        // From here on another thread takes nothing over.
        match tenure.is_claimed.swap(true, Ordering::SeqCst) {
            true => End::GivenUp,
            false => end,
        }
    }

    fn failed(&self, source: Error) -> LoadError {
        LoadError::python(self.config.name(), self.version, source)
    }
}

impl Tenure {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Does something in the interpreter, for so long at most.
    fn limited<R>(
        self: &Arc<Self>,
        session: &Session,
        what: &'static str,
        limit: Option<Duration>,
        action: impl FnOnce(Option<&Arc<Execution>>) -> R,
    ) -> R {
        let keeper = || -> Arc<dyn Keeper> { self.clone() };
        let late = |limit| Late {
            model: self.runs.config.name().to_owned(),
            instance: self.runs.name.clone(),
            what,
            limit,
        };
        Execution::run(session, limit, keeper, late, action)
    }

    /// Initializes the instance and warms it up, says so, serves, and ends it.
    fn serve(self: &Arc<Self>, session: &Session, is_first: bool) -> End {
        let runs = &self.runs;
        let limit = runs.limits.initialization_limit;
        let told = Told {
            config: runs.config.json().to_string(),
            name: runs.name.clone(),
            kind: runs.kind,
            device: runs.device,
            is_decoupled: runs.config.is_decoupled(),
        };
        let start = || runs.content.instance(session, &runs.context, &told);
        let what = runs.content.start();
        let instance = match self.limited(session, what, limit, |_| start()) {
            Ok(instance) => instance,
            Err(error) => return End::NotStarted(self.not_started(what, error)),
        };
        runs.readiness.set(instance.tells_readiness());
        let mut end = match self.warm(session, &instance) {
            Ok(()) => End::Closed,
            Err(error) => End::NotStarted(error),
        };
        if matches!(end, End::Closed) && !self.is_over() {
            self.settle(session);
            self.serves(is_first);
            while let Some(batch) = runs.scheduler.next(runs.index, &self.is_over) {
                let is_success =
                    self.execute(session, &instance, batch, &runs.counters, &runs.activity);
                let may_be_exhausted = !is_success && !self.is_over();
                if may_be_exhausted && runs.limits.memory_limit.is_some() && instance.is_exhausted()
                {
                    end = End::Exhausted;
                    break;
                }
            }
        }
        if self.is_over() {
            return End::GivenUp;
        }
        let finalized = self.limited(session, "finalize", limit, |_| instance.finalize());
        if let Err(error) = finalized
            && !self.has_crashed(&error)
        {
            tracing::error!(
                model = runs.config.name(),
                instance = runs.name,
                "finalize: {}",
                error.traceback().unwrap_or(&error.to_string())
            );
        }
        end
    }

    /// Whether an error says that the interpreter has crashed. Then the instance gets another one.
    fn has_crashed(&self, error: &Error) -> bool {
        let Error::Crashed { report } = error else { return false };
        self.crashed(report);
        true
    }

    fn not_started(&self, what: &'static str, error: Error) -> LoadError {
        let runs = &self.runs;
        if let Error::Crashed { report } = &error {
            self.crashed(report);
            return LoadError::crashed(runs.config.name(), runs.version, report);
        }
        let late = runs.limits.initialization_limit.map(|limit| (what, limit));
        LoadError::limited(runs.config.name(), runs.version, error, late)
    }

    /// Runs the example of a package, and the requests of the configuration.
    fn warm(self: &Arc<Self>, session: &Session, instance: &Instance<'_>) -> Result<(), LoadError> {
        let runs = &self.runs;
        let limit = runs.limits.initialization_limit;
        let example = self.limited(session, EXAMPLE, limit, |_| instance.warm());
        runs.samples.example(example.map_err(|error| self.not_started(EXAMPLE, error))?)?;
        let activity = Activity::new(String::new());
        let execute = |batch| {
            self.execute(session, instance, batch, &Counters::default(), &activity);
        };
        runs.samples.run(&runs.name, &execute).map(drop)
    }

    /// The instance takes requests from now on.
    fn serves(&self, is_first: bool) {
        let runs = &self.runs;
        runs.restarts.serves();
        match is_first {
            true => runs.health.set(runs.index, Condition::Serving),
            false => {
                runs.health.replaced(runs.index);
                tracing::warn!(instance = runs.name, "another instance serves in its place");
            }
        }
        drop(runs.tell(Ok(())));
    }

    /// The first time, before the next instance takes memory. Further times come by themselves, and say what is wrong with the folder.
    fn settle(&self, session: &Session) {
        let Some(directory) = &self.runs.limits.dense else { return };
        match session.interpreter().settle(directory) {
            Ok(settled) => tracing::debug!(instance = self.runs.name, ?settled, "settled"),
            Err(error) => tracing::debug!(instance = self.runs.name, "not settled: {error}"),
        }
    }

    /// Executes a batch. False if it has failed as a whole.
    fn execute(
        self: &Arc<Self>,
        session: &Session,
        instance: &Instance<'_>,
        batch: Vec<Queued>,
        counters: &Counters,
        activity: &Activity,
    ) -> bool {
        let limit = self.runs.limits.execution_limit;
        if limit.is_some() || self.runs.limits.contain_crashes {
            let mut given = self.given.lock();
            given.retain(|pending| pending.strong_count() > 0);
            given.extend(batch.iter().map(|queued| Arc::downgrade(&queued.pending)));
            drop(given);
            // If another thread gives the instance up after this point, it finds the requests.
            if self.is_over() {
                let words = self.runs.problem("it was given up before it could take the request");
                let failure = Failure::new(Code::Unavailable, words);
                batch.iter().for_each(|queued| queued.pending.fail(failure.clone()));
                return false;
            }
        }
        let executed = self.limited(session, "execute", limit, |execution| {
            instance.execute(batch, counters, activity, execution)
        });
        if let Executed::Crashed(crashed) = &executed {
            self.crashed(&crashed.report);
            crashed.fail(&self.crash(&crashed.report).failure());
        }
        matches!(executed, Executed::Done)
    }

    fn crash<'a>(&'a self, report: &'a str) -> Crash<'a> {
        Crash { model: self.runs.config.name(), instance: &self.runs.name, report }
    }

    /// Takes the instance from this interpreter, unless that has been done: its requests fail, and another thread goes on in another
    /// interpreter. `noted` is called before anybody hears of it.
    fn hand_over(
        &self,
        failure: &Failure,
        error: impl FnOnce() -> LoadError,
        noted: impl FnOnce(),
    ) {
        if self.is_claimed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.is_over.store(true, Ordering::SeqCst);
        let runs = &self.runs;
        runs.health.give_up(runs.index, failure.message.clone());
        runs.activity.give_up();
        noted();
        // First the sequences: a client that hears of the failure must find them ended.
        runs.scheduler.fail_instance(runs.index, failure);
        for pending in std::mem::take(&mut *self.given.lock()) {
            if let Some(pending) = pending.upgrade() {
                pending.fail(failure.clone());
            }
        }
        if runs.tell(Err(error())).is_none() {
            return runs.health.set(runs.index, Condition::Ended);
        }
        if let Err(error) = runs.clone().start(false) {
            let words = runs.problem(&format!("the system gives no thread for another: {error}"));
            runs.health.set(runs.index, Condition::Failed(words));
        }
    }
}

impl Keeper for Tenure {
    fn is_stuck(&self) -> bool {
        let interpreters = self.runs.pool.interpreters();
        interpreters.get(self.runs.index).is_some_and(hydrozoa::Interpreter::is_stuck)
    }

    fn interrupt_loop(&self) {
        let (pool, index) = (self.runs.pool.clone(), self.runs.index);
        // It waits for the GIL, maybe for as long as the process lives.
        let interrupts = thread::Builder::new().name("interrupt".to_owned());
        let started = interrupts.spawn(move || {
            let session = pool.acquire_on(index)?;
            session.import("_hydrozoa_runner")?.call_method("interrupt_loop", ()).map(drop)
        });
        if let Err(error) = started {
            tracing::warn!("no thread to interrupt a coroutine: {error}");
        }
    }

    fn give_up(&self, late: &Late) {
        let (runs, failure) = (&self.runs, late.given_up());
        let error =
            || LoadError::late(runs.config.name(), runs.version, late.what, late.limit, false);
        self.hand_over(&failure, error, || tracing::error!("{failure}"));
    }

    fn crashed(&self, report: &str) {
        let (runs, failure) = (&self.runs, self.crash(report).failure());
        let error = || LoadError::crashed(runs.config.name(), runs.version, report);
        self.hand_over(&failure, error, || {
            runs.activity.crashed();
            runs.restarts.crashed();
            tracing::error!("{failure}\n{}", report.trim_end());
        });
    }
}

//! The workers of a server, and their replacement while they serve.

use crate::asgi;
use crate::error::{Error, trace};
use crate::exchange::Exchange;
use crate::loading::load_all;
use crate::local::LoopId;
use crate::queue::Queue;
use crate::replacements::Replacements;
use crate::request::{Asked, ListenerPlace};
use crate::scrape::{self, Departed, Moment};
use crate::settings::Interface;
use crate::worker::{Context, Worker};
use crate::wsgi::{self, Job};
use bytes::Bytes;
use hydrozoa::{Interpreter, Pool};
use hyper::StatusCode;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A command for the thread that replaces workers.
#[derive(Debug)]
pub(crate) enum Command {
    /// The worker of this interpreter has served its requests.
    Served { interpreter: String },
    /// The worker of this interpreter takes more memory than it may.
    Outgrown { interpreter: String, taken: usize },
    /// A call into this interpreter goes on although it was interrupted.
    Stuck { interpreter: String },
    /// The event loop of this interpreter runs nothing new.
    Silent { interpreter: String },
    /// This interpreter has crashed.
    Crashed { interpreter: String, report: String },
    /// All workers are replaced, one after the other. With `once`, a failure is not tried again.
    Reload { once: bool },
    /// The server ends.
    End,
}

/// The workers.
pub(crate) struct Fleet {
    pub(crate) context: Context,
    pub(crate) interface: Interface,
    pool: Mutex<Option<Pool>>,
    workers: Mutex<Vec<Arc<Worker>>>,
    queue: Arc<Queue<Job>>,
    /// A worker has come into its place.
    came: Notify,
    /// Workers that leave, and the counts of those that have left. Taken before `workers`.
    departed: Arc<Mutex<Departed>>,
    /// Workers that have been replaced and have not ended.
    ending: Arc<AtomicUsize>,
    pub(crate) replaced: AtomicU64,
    processors: usize,
}

/// Why a request has no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many others wait.
    Full,
    /// Each worker is being replaced. The next one is told by [`Fleet::ready_again`].
    NoneReady,
}

/// Requests that the worker of a connection's thread may have more than another one, and still gets the next.
const NEARBY: usize = 2;

/// How often silent event loops are looked for.
const TICK: Duration = Duration::from_millis(250);

impl Fleet {
    /// Loads the application into each interpreter.
    pub(crate) fn start(pool: Pool, context: Context) -> Result<Self, Error> {
        let workers = load_all(pool.interpreters().into_iter().collect(), &context)?;
        let interface = workers[0].interface();
        let queue = Arc::new(Queue::new(context.settings.waiting));
        if interface == Interface::Wsgi {
            workers.iter().try_for_each(|worker| wsgi::start(worker, &queue))?;
        }
        Ok(Self {
            context,
            interface,
            pool: Mutex::new(Some(pool)),
            workers: Mutex::new(workers),
            queue,
            came: Notify::new(),
            departed: Arc::default(),
            ending: Arc::default(),
            replaced: AtomicU64::new(0),
            processors: thread::available_parallelism().map_or(1, NonZeroUsize::get),
        })
    }

    /// Hands a request to a worker: WSGI's to any that is free, ASGI's to the thread's own or the least loaded.
    pub(crate) fn dispatch(
        &self,
        exchange: &Arc<Exchange>,
        asked: &Asked,
        place: &ListenerPlace,
        body: Option<Bytes>,
    ) -> Result<(), Refusal> {
        let root = &self.context.settings.root_path;
        if self.interface == Interface::Wsgi {
            let (head, path) = asked.wsgi(root, body.as_ref());
            let exchange = Arc::clone(exchange);
            return self.queue.add(Job { exchange, head, path, body }).map_err(|_| Refusal::Full);
        }
        let worker = {
            let workers = self.workers.lock();
            let (local, processors) = (LoopId::local(), self.processors);
            let busy = workers.iter().filter(|worker| worker.exchanges.waiting() > 0).count();
            let load = |worker: &&Arc<Worker>| {
                let id = worker.asgi.as_ref().map(|asgi| asgi.id);
                let (waiting, count) = (worker.exchanges.waiting(), worker.exchanges.count());
                if local.is_none() || id != local {
                    return (waiting, 1, count);
                }
                // It needs no other thread. One that is idle is better, if there is a processor for it.
                let least = usize::from(waiting > 0 && busy < processors);
                (waiting.saturating_sub(NEARBY).max(least), 0, count)
            };
            let least = workers.iter().filter(|worker| worker.is_ready()).min_by_key(load);
            let worker = least.cloned().ok_or(Refusal::NoneReady)?;
            if worker.exchanges.count() >= self.context.settings.concurrency {
                return Err(Refusal::Full);
            }
            // A worker that is told to leave from now on waits for it.
            worker.exchanges.add(exchange);
            worker
        };
        if let Some(asgi) = &worker.asgi {
            asgi::answer(&worker, asgi, exchange, asked.asgi(place, root), body);
        }
        Ok(())
    }

    /// Waits for the next worker that comes into its place. It counts from the call, not from the first poll.
    pub(crate) fn ready_again(&self) -> Notified<'_> {
        self.came.notified()
    }

    /// Requests that wait for a worker.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Requests that workers have.
    pub(crate) fn under_way(&self) -> usize {
        self.workers.lock().iter().map(|worker| worker.exchanges.count()).sum()
    }

    /// The workers, of which a scrape is made.
    pub(crate) fn moment(&self) -> Moment {
        let departed = self.departed.lock();
        let workers = self.workers.lock().clone();
        departed.moment(workers)
    }

    pub(crate) fn count(&self) -> usize {
        self.workers.lock().len()
    }

    /// Workers that answer requests.
    pub(crate) fn ready(&self) -> usize {
        self.workers.lock().iter().filter(|worker| worker.is_ready()).count()
    }

    /// Replaces workers as it is told, until it is told to end.
    pub(crate) fn run(&self, commands: &Receiver<Command>) {
        let mut replacements = Replacements::default();
        loop {
            let pause = match replacements.is_urgent() {
                true => Duration::ZERO,
                false => replacements.pause(Instant::now()),
            };
            let command = match commands.recv_timeout(pause) {
                Ok(Command::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
            };
            let once = matches!(command, Some(Command::Reload { once: true }));
            let found = command.map_or_else(Vec::new, |command| self.heard(command));
            replacements.want(found, once);
            let Some(index) = replacements.next(Instant::now()) else { continue };
            match self.replace(index) {
                Ok(()) => replacements.succeeded(index),
                Err(error) => {
                    let pause = replacements.failed(index, Instant::now());
                    report(index, &error, pause);
                }
            }
        }
    }

    fn find(&self, interpreter: &str) -> Option<(usize, Arc<Worker>)> {
        let workers = self.workers.lock();
        let mut all = workers.iter().enumerate();
        let found = all.find(|(_, worker)| worker.interpreter.name() == interpreter);
        found.map(|(index, worker)| (index, Arc::clone(worker)))
    }

    /// The workers that a command wants replaced.
    fn heard(&self, command: Command) -> Vec<usize> {
        match command {
            Command::Reload { .. } => {
                tracing::info!("the workers are replaced, one after the other");
                (0..self.count()).collect()
            }
            Command::Served { interpreter } | Command::Silent { interpreter } => {
                self.find(&interpreter).map(|(index, _)| index).into_iter().collect()
            }
            Command::Outgrown { interpreter, taken } => {
                let Some((index, worker)) = self.find(&interpreter) else { return Vec::new() };
                tracing::warn!(
                    "worker {} takes {} MiB, more than --max-memory: it is replaced",
                    worker.number(),
                    taken >> 20
                );
                vec![index]
            }
            Command::Stuck { interpreter } => {
                let Some((index, worker)) = self.find(&interpreter) else { return Vec::new() };
                tracing::error!(
                    "worker {}: a request has exceeded --timeout, and does not react to its interruption: the worker is replaced",
                    worker.number()
                );
                vec![index]
            }
            Command::Crashed { interpreter, report } => {
                tracing::error!("{report}");
                let Some((index, worker)) = self.find(&interpreter) else { return Vec::new() };
                // Its threads take no further requests.
                worker.leave();
                self.queue.wake();
                vec![index]
            }
            Command::End => Vec::new(),
        }
    }

    /// Has workers replaced whose event loop runs nothing new for longer than it may. The requests of those that leave fail, too.
    fn look(&self, limit: Duration) {
        let mut workers = self.departed.lock().leaving().to_vec();
        workers.extend(self.workers.lock().iter().cloned());
        for worker in workers {
            let Some(asgi) = &worker.asgi else { continue };
            if asgi.silence(&worker.exchanges, limit) <= limit {
                continue;
            }
            let is_new = {
                // No request comes to it from now on.
                let _dispatching = self.workers.lock();
                worker.exchanges.give_up()
            };
            worker.exchanges.fail(StatusCode::GATEWAY_TIMEOUT, |_| true);
            if is_new {
                tracing::error!(
                    "worker {}: its event loop has run nothing new for {} s (--timeout): the application does not let go of it",
                    worker.number(),
                    limit.as_secs_f64()
                );
                let interpreter = worker.interpreter.name().to_owned();
                // Nobody hears it where the server ends.
                drop(self.context.commands.send(Command::Silent { interpreter }));
            }
        }
    }

    /// Puts another worker in the place of one. The old one leaves when the new one serves.
    fn replace(&self, index: usize) -> Result<(), Error> {
        let Some(pool) = self.pool.lock().clone() else { return Ok(()) };
        // The former interpreter has no application where the last attempt has failed.
        let former = pool.replace(index).map_err(|error| Error::Workers(error.into()))?;
        let interpreter = pool.interpreters()[index].clone();
        let context = self.context.clone();
        let worker = Arc::new(Worker::load(interpreter, &context)?);
        if self.interface != worker.interface() {
            return Err(Error::Application(
                "the application has become one of the other interface; restart the server"
                    .to_owned(),
            ));
        }
        if self.interface == Interface::Wsgi {
            wsgi::start(&worker, &self.queue)?;
        }
        let old = {
            let mut departed = self.departed.lock();
            let old = match self.workers.lock().get_mut(index) {
                Some(place) => std::mem::replace(place, worker),
                // The server has ended meanwhile.
                None => worker,
            };
            departed.leaves(&old);
            old
        };
        self.came.notify_waiters();
        self.replaced.fetch_add(1, Ordering::Relaxed);
        self.dismiss(old, former);
        tracing::info!("worker {} is replaced", index + 1);
        Ok(())
    }

    /// Has a worker leave, which takes as long as its requests do.
    fn dismiss(&self, worker: Arc<Worker>, former: Interpreter) {
        worker.leave();
        self.queue.wake();
        let patience = self.context.settings.graceful_timeout;
        let (ending, departed) = (Arc::clone(&self.ending), Arc::clone(&self.departed));
        let runtime = self.context.runtime.clone();
        ending.fetch_add(1, Ordering::SeqCst);
        let end = move || {
            worker.end(patience);
            let counts = runtime.block_on(scrape::last_counts(&worker));
            departed.lock().note(&worker, &counts);
            Departed::wait_for_scrapes(&worker);
            drop((worker, former));
            ending.fetch_sub(1, Ordering::SeqCst);
        };
        if let Err(error) = big_thread("leave", end) {
            tracing::error!("{error}");
        }
    }

    /// Ends all workers within a time.
    pub(crate) fn end(&self, within: Duration) {
        let deadline = Instant::now() + within;
        let workers = std::mem::take(&mut *self.workers.lock());
        workers.iter().for_each(|worker| worker.leave());
        self.queue.wake();
        let left = move || deadline.saturating_duration_since(Instant::now());
        let ending: Vec<_> = workers
            .into_iter()
            .map(|worker| big_thread("leave", move || worker.end(left())))
            .collect();
        for thread in ending {
            match thread.map(thread::JoinHandle::join) {
                Ok(_) => {}
                Err(error) => tracing::error!("{error}"),
            }
        }
        while self.ending.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        let pool = self.pool.lock().take();
        if let Some(pool) = pool
            && let Err(error) = pool.close(left())
        {
            tracing::warn!("{}", trace(&error));
        }
    }
}

/// Looks for silent event loops, as long as there are workers. The thread that replaces workers may be busy with it for long.
pub(crate) fn watch(fleet: &Arc<Fleet>) -> Result<(), Error> {
    let limit = fleet.context.settings.timeout.filter(|_| fleet.interface == Interface::Asgi);
    let Some(limit) = limit else { return Ok(()) };
    let fleet = Arc::downgrade(fleet);
    big_thread("watch", move || {
        while let Some(fleet) = fleet.upgrade() {
            fleet.look(limit);
            drop(fleet);
            thread::sleep(TICK);
        }
    })?;
    Ok(())
}

/// Says why a worker could not be replaced, and how long the next attempt waits.
fn report(index: usize, error: &Error, pause: Option<Duration>) {
    let traceback = error.traceback().map(|text| format!("\n{text}")).unwrap_or_default();
    match pause {
        Some(pause) => tracing::error!(
            "worker {} cannot be replaced; the next attempt is in {} s: {error}{traceback}",
            index + 1,
            pause.as_secs()
        ),
        None => tracing::error!(
            "the workers serve the former application until the next change: {error}{traceback}"
        ),
    }
}

/// A thread on which Python code may run.
pub(crate) fn big_thread<T: Send + 'static>(
    name: &str,
    action: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>, Error> {
    let builder = thread::Builder::new().name(name.to_owned()).stack_size(8 << 20);
    builder.spawn(action).map_err(Error::Threads)
}

/// A builder whose reports come to the fleet.
pub(crate) fn reporting(
    builder: hydrozoa::Builder,
    context: &Context,
    commands: &Sender<Command>,
) -> hydrozoa::Builder {
    let (stuck, crashed) = (commands.clone(), commands.clone());
    let roster = Arc::clone(&context.roster);
    let builder = builder.on_stuck(move |report| {
        roster.stuck(&report.interpreter);
        drop(stuck.send(Command::Stuck { interpreter: report.interpreter.clone() }));
    });
    if !context.settings.contain_crashes {
        return builder;
    }
    let builder = builder.contain_crashes(true).replace_crashed(false);
    let roster = Arc::clone(&context.roster);
    builder.on_crashed(move |interpreter, report| {
        roster.crashed(interpreter.name());
        let (interpreter, report) = (interpreter.name().to_owned(), report.to_owned());
        drop(crashed.send(Command::Crashed { interpreter, report }));
    })
}

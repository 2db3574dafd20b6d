//! Coroutines as Rust futures, and Rust futures as awaitables (feature `async`).
//!
//! | file | is |
//! |---|---|
//! | `mailbox` | messages that the host sends to an event loop without its GIL |
//! | `job` | a coroutine on its way through an event loop |
//! | `task` | the future of its result |
//! | `awaitable` | a Rust future that a coroutine awaits |
//! | `driver` | the loop's thread, which waits outside of the interpreter |
//! | `reactor` | the place where it waits |
//!
//! An interpreter's event loop has a thread of the runtime ([`driver`]), which runs asyncio's loop
//! (`payload/python/events.py`) and answers its waits. The host never waits for it: it puts a number into the loop's mailbox and makes a descriptor readable.
//! The loop then calls the host, on its thread and under its GIL, and the host makes the coroutine, or takes the result.

mod awaitable;
mod driver;
mod job;
mod mailbox;
mod reactor;
mod task;

pub use reactor::Reactor;
pub use task::Task;

use crate::convert::FromPython;
use crate::interpreter::{Companion, Interpreter};
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use hydrozoa_loader::LeafLock;
use job::{Job, Work};
use mailbox::Mailbox;
use reactor::Sleeper;
use std::collections::HashMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The event loop of one interpreter: asyncio's, on a thread of its own. [`Interpreter::event_loop`] gives it.
///
/// A handle: clones refer to the same loop. It does not keep its interpreter alive. When the interpreter ends, its tasks are
/// cancelled and their Rust futures resolve to [`Error::Ended`]. After a contained crash they resolve to [`Error::Crashed`].
#[derive(Clone)]
pub struct EventLoop(Arc<Shared>);

/// The state that the handles of a loop, its tasks and the loop itself share.
struct Shared {
    /// The name of the interpreter.
    interpreter: Arc<str>,
    mailbox: Arc<Mailbox>,
    /// By their numbers. `None` when the interpreter has begun to end, or the loop has ended.
    jobs: LeafLock<Option<Jobs>>,
    next: AtomicU64,
    /// The report of the interpreter's crash.
    crash: OnceLock<String>,
}

type Jobs = HashMap<u64, Box<dyn Job>>;

impl EventLoop {
    /// Runs a coroutine, and gives the future of its result as a `T`.
    ///
    /// `make` gives the coroutine, or another awaitable. It is called on the loop's thread, with asyncio's loop running and
    /// in a new, empty `contextvars` context that becomes the coroutine's. This returns at once: it waits for no GIL. The
    /// coroutine starts whether or not the [`Task`] is polled, and the drop of the task cancels it.
    ///
    /// The result is converted on the loop's thread. A [`Handle`](crate::Handle) is the object itself.
    ///
    /// ```no_run
    /// # async fn f(pool: &hydrozoa::Pool) -> hydrozoa::Result<()> {
    /// let events = pool.interpreters()[0].event_loop()?;
    /// let page: String = events.spawn(|session| session.import("pages")?.call_method("fetch", ("/",))).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Of the future: an error of `make`. The exception of the coroutine as [`Error::Python`]; this is
    /// `asyncio.CancelledError` if Python code has cancelled the task. [`Error::Convert`] if the result is not a `T`.
    /// [`Error::Panic`] for a panic of `make` or of the conversion. [`Error::Ended`]. [`Error::Crashed`].
    pub fn spawn<T, M>(&self, make: M) -> Task<T>
    where
        T: for<'s> FromPython<'s> + Send + 'static,
        M: for<'s> FnOnce(&'s Session) -> Result<Object<'s>> + Send + 'static,
    {
        self.spawn_with(make, |result| result.extract())
    }

    /// As [`EventLoop::spawn`], with `take` for the conversion. It is called on the loop's thread, under the GIL.
    ///
    /// # Errors
    ///
    /// As [`EventLoop::spawn`], with those of `take`.
    pub fn spawn_with<T, M, X>(&self, make: M, take: X) -> Task<T>
    where
        T: Send + 'static,
        M: for<'s> FnOnce(&'s Session) -> Result<Object<'s>> + Send + 'static,
        X: for<'s> FnOnce(Object<'s>) -> Result<T> + Send + 'static,
    {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = task::channel(self.0.interpreter.clone());
        // If the interpreter has ended, the job is dropped, and the task says so.
        match self.0.keep(number, Box::new(Work::new(make, take, sender))) {
            None => self.0.mailbox.start(number),
            Some(refused) => self.0.refuse(refused),
        }
        Task::new(receiver, self.0.clone(), number)
    }
}

impl EventLoop {
    /// Has the loop's thread call a function soon, as `loop.call_soon_threadsafe` has it call one of Python.
    ///
    /// It is called under the GIL, with asyncio's loop running, and in no task. This returns at once: it waits for no GIL. It costs less than
    /// [`EventLoop::spawn`], as it makes neither a task of asyncio nor a future.
    ///
    /// The function must not wait: meanwhile no coroutine goes on. A panic is reported by `tracing`. When the interpreter has begun to
    /// end, or has crashed, the function is dropped.
    ///
    /// ```no_run
    /// # fn f(pool: &hydrozoa::Pool, handler: hydrozoa::Handle) -> hydrozoa::Result<()> {
    /// let events = pool.interpreters()[0].event_loop()?;
    /// events.call_soon(move |session| {
    ///     if let Err(error) = handler.attach(session).and_then(|handler| handler.call(("ping",))) {
    ///         eprintln!("{error}");
    ///     }
    /// });
    /// # Ok(()) }
    /// ```
    pub fn call_soon<F>(&self, function: F)
    where
        F: FnOnce(&Session) + Send + 'static,
    {
        drop(self.0.mailbox.call(Box::new(function)));
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<the event loop of {}>", self.0.interpreter)
    }
}

impl Shared {
    /// Notes a job, unless the loop has ended. Then it gives the job back.
    fn keep(&self, number: u64, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let mut job = Some(job);
        self.jobs.with(|jobs| {
            if let Some(jobs) = jobs {
                jobs.extend(job.take().map(|job| (number, job)));
            }
        });
        job
    }

    /// Has the future of a job say why there is no loop any more.
    fn refuse(&self, job: Box<dyn Job>) {
        match self.crash.get() {
            Some(report) => job.fail(Error::Crashed { report: report.clone() }),
            None => drop(job),
        }
    }

    /// Takes a job out.
    fn take(&self, number: u64) -> Option<Box<dyn Job>> {
        self.jobs.with(|jobs| jobs.as_mut()?.remove(&number))
    }

    /// Makes the loop cancel a task.
    fn cancel(&self, number: u64) {
        self.mailbox.cancel(number);
    }

    /// The awaitable of a job that is still wanted, for the loop.
    fn make<'s>(&self, session: &'s Session, number: u64) -> Result<Object<'s>> {
        if let Some(mut job) = self.take(number)
            && let Some(awaitable) = job.make(session)
        {
            match self.keep(number, job) {
                None => return Ok(awaitable),
                Some(refused) => self.refuse(refused),
            }
        }
        session.none()
    }

    /// Resolves the future of a job whose asyncio task has ended.
    fn done(&self, number: u64, task: Object<'_>) {
        if let Some(job) = self.take(number) {
            job.done(task);
        }
    }

    /// Resolves all futures: the loop ends.
    fn close(&self) {
        for job in self.jobs.with(Option::take).unwrap_or_default().into_values() {
            self.refuse(job);
        }
        drop(self.mailbox.close());
    }

    /// Resolves all futures: the interpreter has crashed.
    fn crashed(&self, report: String) {
        let _ = self.crash.set(report);
        self.close();
    }

    /// Starts the loop of an interpreter, the object that `make` gives, or asyncio's if that is None. With `shares`, the reactor has other work.
    fn start(
        session: &Session,
        make: impl FnOnce(&Session) -> Result<Object<'_>>,
        (reactor, shares): (Box<dyn Reactor>, bool),
    ) -> Result<Arc<Self>> {
        let mailbox = Mailbox::new()?;
        let shared = Arc::new(Self {
            interpreter: session.interpreter().name().into(),
            mailbox: mailbox.clone(),
            jobs: LeafLock::new(Some(Jobs::new())),
            next: AtomicU64::new(0),
            crash: OnceLock::new(),
        });
        session.with_gil(|| {
            let events_of_python = make(session)?;
            let own = shared.clone();
            let make = session.function("make", move |session, arguments| {
                own.make(session, arguments.extract(0)?)
            })?;
            let own = shared.clone();
            let done = session.function("done", move |session, arguments| {
                own.done(arguments.extract(0)?, arguments.extract(1)?);
                session.none()
            })?;
            let (number, descriptor, take) = mailbox.for_python(session)?;
            let events = session.import("_hydrozoa.events")?;
            let arguments = (number, descriptor, take, make, done, events_of_python);
            let driven = events.call_method("Driven", arguments)?;
            let started = Self::drive(session, &shared, &driven, (reactor, shares));
            if started.is_err() {
                driven.call_method("close", ())?;
            }
            started.map(|()| shared)
        })
    }

    /// Starts the thread of a loop, an object of Python.
    fn drive(
        session: &Session,
        shared: &Arc<Self>,
        driven: &Object<'_>,
        reactor: (Box<dyn Reactor>, bool),
    ) -> Result<()> {
        let descriptor = driven.call_method("fileno", ())?.extract()?;
        // SAFETY: the loop's selector keeps the descriptor open, and no other thread has the loop.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        driver::start(session, shared, driven, descriptor, reactor)
    }
}

/// The interpreter's reference to its loop. It is dropped when the interpreter begins to end.
struct Attached(Arc<Shared>);

impl Companion for Attached {
    fn crashed(&self) {
        // It may be in code that does not return.
        drop(self.0.mailbox.close());
        // The loop's thread finds the crash when its wait ends.
        self.0.mailbox.ring();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.close();
        self.0.mailbox.ring();
    }
}

impl Interpreter {
    /// The interpreter's event loop: asyncio's, on a thread of its own. The first call starts it, and imports asyncio. That call
    /// waits for the GIL, later calls do not.
    ///
    /// The thread is in the interpreter while the loop has something to run. In between it sleeps outside, whatever the loop
    /// waits for: timers, sockets, children. So the interpreter can be settled while its loop is idle
    /// ([`Interpreter::settle`]). A forked child lacks the loop's thread, and its tasks never end.
    ///
    /// The thread lives as long as the interpreter. When the interpreter ends, all tasks of the loop are cancelled and waited
    /// for, as `asyncio.run` does. To Python the thread is none of `threading.Thread`'s, but has a name; it takes the signals
    /// that the calling thread takes. The loop is always asyncio's own, whatever the policy of event loops.
    ///
    /// # Errors
    ///
    /// [`Error::Python`] if asyncio cannot be imported. [`Error::Start`] if the system refuses a thread, and [`Error::Io`] if it refuses
    /// a file descriptor.
    pub fn event_loop(&self) -> Result<EventLoop> {
        self.event_loop_of(Session::none, None)
    }

    /// The same, on a thread that does other work of the host's while the loop waits ([`Reactor`]). `reactor` is dropped if the loop
    /// runs already. It is dropped on the loop's thread before the loop's tasks are cancelled.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::event_loop`].
    pub fn event_loop_with(&self, reactor: impl Reactor) -> Result<EventLoop> {
        self.event_loop_of(Session::none, Some(Box::new(reactor)))
    }

    /// The same, with an event loop that `make` gives: uvloop's, or one of a class of the program's own. It must wait by epoll(7), and have
    /// its descriptor as asyncio's loop or uvloop's has it. Where `make` gives None it is asyncio's. It is called under the GIL, unless
    /// the interpreter's loop runs already.
    ///
    /// ```no_run
    /// # fn f(pool: &hydrozoa::Pool) -> hydrozoa::Result<()> {
    /// let interpreter = &pool.interpreters()[0];
    /// let events = interpreter.event_loop_of(|session| session.import("uvloop")?.call_method("new_event_loop", ()), None)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Interpreter::event_loop`], and those of `make`.
    pub fn event_loop_of<M>(&self, make: M, reactor: Option<Box<dyn Reactor>>) -> Result<EventLoop>
    where
        M: for<'s> FnOnce(&'s Session) -> Result<Object<'s>>,
    {
        let start = || {
            // One that only sleeps needs no share of the thread's time.
            let reactor = match reactor {
                Some(reactor) => (reactor, true),
                None => (Box::new(Sleeper) as Box<dyn Reactor>, false),
            };
            let shared = Shared::start(&self.session(), make, reactor)?;
            Ok(Box::new(Attached(shared)) as Box<_>)
        };
        let value = self.0.lazy_value().get_or_start(start)?;
        match value.downcast_ref::<Attached>() {
            Some(attached) => Ok(EventLoop(attached.0.clone())),
            None => Err(Error::defect("an interpreter has something else for its event loop")),
        }
    }
}

impl Session {
    /// Runs a coroutine on the event loop of this session's interpreter ([`EventLoop::spawn`]). The lease lasts until the task
    /// has ended or is dropped. So the pool counts the coroutine as load, and the interpreter lives until then.
    ///
    /// ```no_run
    /// # async fn f(pool: &hydrozoa::Pool) -> hydrozoa::Result<()> {
    /// // On the least loaded interpreter.
    /// let session = pool.acquire()?;
    /// let page: String = session.spawn(|session| session.import("pages")?.call_method("fetch", ("/",)))?.await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Interpreter::event_loop`]. Of the future: as [`EventLoop::spawn`].
    pub fn spawn<T, M>(self, make: M) -> Result<Task<T>>
    where
        T: for<'s> FromPython<'s> + Send + 'static,
        M: for<'s> FnOnce(&'s Session) -> Result<Object<'s>> + Send + 'static,
    {
        let events = self.interpreter().event_loop()?;
        Ok(events.spawn(make).leased(self))
    }
}

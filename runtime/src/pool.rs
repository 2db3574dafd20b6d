//! A pool: several interpreters of one Python, and the choice between them.

mod acquire;
mod builder;
mod record;
mod weak;

pub use builder::Builder;
pub use weak::WeakPool;

use crate::dense;
use crate::interpreter::{Configuration, Interpreter, Queue, close_all, start, without_gil};
use crate::python::Installation;
use crate::settle::settle;
use crate::settled_pages::Settled;
use crate::streams::Streams;
use crate::thread::Thread;
use crate::{Error, Result};
use arc_swap::ArcSwap;
use hydrozoa_loader::thread_number;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Several interpreters of one Python in this process.
///
/// A pool has no threads. Each thread of the application takes a [`Session`](crate::Session) and runs in it.
///
/// A handle: clones refer to the same pool. An interpreter is finalized after the last clone, the
/// pool's last package and movable, and the interpreter's last session are dropped. For one that the pool has replaced
/// ([`Pool::replace`]) or given up ([`Pool::resize`]), dropping its own sessions and handles is enough.
#[derive(Clone)]
pub struct Pool(Arc<PoolState>);

/// The state that the handles of a pool share.
struct PoolState {
    interpreters: ArcSwap<Box<[Interpreter]>>,
    python: Installation,
    /// The threads that wait for an interpreter with fewer sessions.
    queue: Arc<Queue>,
    /// Lets one thread at a time change the pool. `None`: the pool cannot be changed.
    changes: Option<Mutex<Changes>>,
    /// The thread that changes it, as gettid(2) gives it; 0 for none.
    changing: AtomicI32,
}

impl Drop for PoolState {
    fn drop(&mut self) {
        self.interpreters.load().iter().for_each(Interpreter::retire);
    }
}

/// The right of the calling thread to change the pool.
struct Changing<'a> {
    changes: MutexGuard<'a, Changes>,
    thread: &'a AtomicI32,
}

impl Deref for Changing<'_> {
    type Target = Changes;

    fn deref(&self) -> &Changes {
        &self.changes
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.thread.store(0, Ordering::Relaxed);
    }
}

/// The recipe of the pool's next interpreters.
struct Changes {
    configuration: Configuration,
    /// How many interpreters each place has had.
    generations: Vec<usize>,
    /// Names and sources of [`Pool::register_module`].
    modules: Vec<(String, String)>,
    streams: Streams,
}

/// The interpreters of a pool at one moment, in order.
#[derive(Clone)]
pub struct Interpreters(Arc<Box<[Interpreter]>>);

impl Deref for Interpreters {
    type Target = [Interpreter];

    fn deref(&self) -> &[Interpreter] {
        &self.0
    }
}

impl fmt::Debug for Interpreters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl IntoIterator for Interpreters {
    type Item = Interpreter;
    type IntoIter = std::vec::IntoIter<Interpreter>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(&**self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Interpreters {
    type Item = &'a Interpreter;
    type IntoIter = std::slice::Iter<'a, Interpreter>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("python", &self.python().library())
            .field("interpreters", &self.interpreters())
            .finish()
    }
}

impl Changes {
    /// Interpreters for the places from `begin` to before `end`. The first of a pool starts alone, because it reads the
    /// files and makes the plans that all share; the others start in parallel.
    fn grow(&mut self, begin: usize, end: usize) -> Result<Vec<Interpreter>> {
        let mut interpreters = Vec::new();
        if begin == 0 {
            interpreters.push(self.start(0)?);
        }
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        while begin + interpreters.len() < end {
            let first = begin + interpreters.len();
            let last = end.min(first + threads);
            let starting: Vec<_> = (first..last).map(|index| self.starting(index)).collect();
            // All of them have ended before the first error is returned.
            let started: Vec<_> = starting
                .into_iter()
                .map(|thread| thread?.join().unwrap_or_else(|panic| Err(Error::panicked(&*panic))))
                .collect();
            for outcome in started {
                interpreters.push(outcome?);
            }
        }
        for interpreter in &interpreters {
            self.prepare(interpreter)?;
        }
        Ok(interpreters)
    }

    /// The next interpreter at `index`.
    fn start(&mut self, index: usize) -> Result<Interpreter> {
        let (generation, name) = self.next(index);
        start((index, generation), &name, &self.configuration)
    }

    /// A thread that starts it.
    fn starting(&mut self, index: usize) -> Result<Thread<Result<Interpreter>>> {
        let ((generation, name), configuration) = (self.next(index), self.configuration.clone());
        let text = name.clone();
        Thread::start("start", move || start((index, generation), &name, &configuration))
            .map_err(|error| Error::no_thread(&text, &error))
    }

    /// How many interpreters were at `index` before the next one, and its name.
    fn next(&mut self, index: usize) -> (usize, String) {
        if self.generations.len() <= index {
            self.generations.resize(index + 1, 0);
        }
        let generation = self.generations[index];
        self.generations[index] += 1;
        let name = match generation {
            0 => format!("interpreter {index}"),
            number => format!("interpreter {index} (replacement {number})"),
        };
        (generation, name)
    }

    /// Installs the pool's streams and modules in an interpreter.
    fn prepare(&self, interpreter: &Interpreter) -> Result<()> {
        if self.configuration.imports.is_some() {
            report_warnings(interpreter)?;
        }
        self.streams.install(interpreter)?;
        self.modules.iter().try_for_each(|(name, source)| register(interpreter, name, source))
    }
}

/// The error for a pool without interpreters.
fn no_interpreters() -> Error {
    Error::Configuration("a pool needs at least one interpreter: ask for 1 or more".to_owned())
}

/// Logs the faults that an interpreter finds in its import profile.
fn report_warnings(interpreter: &Interpreter) -> Result<()> {
    let name = interpreter.name().to_owned();
    let session = interpreter.session();
    let warn = session.function("warn", move |session, arguments| {
        let text: String = arguments.extract(0)?;
        tracing::warn!(interpreter = %name, "{text}");
        session.none()
    })?;
    session.import("_hydrozoa.guided_imports")?.getattr("state")?.setattr("warn", warn)
}

/// Makes a module importable in one interpreter.
fn register(interpreter: &Interpreter, name: &str, source: &str) -> Result<()> {
    let session = interpreter.session();
    session.import("_hydrozoa.sources")?.call_method("register", (name, source)).map(drop)
}

impl Interpreter {
    /// The pool that it belongs to. If that is gone, a pool of this interpreter alone.
    pub fn pool(&self) -> Pool {
        if let Some(state) = self.owner().and_then(|owner| owner.downcast::<PoolState>().ok()) {
            return Pool(state);
        }
        Pool(Arc::new(PoolState {
            interpreters: ArcSwap::from_pointee([self.clone()].into()),
            python: self.python().clone(),
            queue: self.0.leases().queue().clone(),
            changes: None,
            changing: AtomicI32::new(0),
        }))
    }
}

impl Pool {
    /// Settings of a new pool.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The pool's current interpreters, in order.
    pub fn interpreters(&self) -> Interpreters {
        Interpreters(self.0.interpreters.load_full())
    }

    /// The Python that they run.
    pub fn python(&self) -> &Installation {
        &self.0.python
    }

    /// Starts a new interpreter at `index` while the others run, and returns the old one.
    ///
    /// New sessions get the new one. Sessions on the old one go on, and movables keep no copy in it alive. It ends when its
    /// last session, its last handle, and the last [`Tensor`](crate::Tensor) or [`Buffer`](crate::Buffer) taken from it are dropped,
    /// so drop the handle that this returns. The drop waits for the end, unless another session on it is open, such as
    /// one whose call is stuck.
    ///
    /// Modules of [`Pool::register_module`] are registered in the new interpreter. Packages and movables load their
    /// objects there when they are used.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`], and [`Error::NoSuchInterpreter`]. Then nothing has changed.
    pub fn replace(&self, index: usize) -> Result<Interpreter> {
        let mut changes = self.changes()?;
        let mut members = self.interpreters().to_vec();
        let count = members.len();
        let place = members.get_mut(index).ok_or(Error::NoSuchInterpreter { index, count })?;
        let new = changes.start(index)?;
        changes.prepare(&new)?;
        self.adopt(&new);
        let old = std::mem::replace(place, new);
        self.publish(members);
        old.retire();
        Ok(old)
    }

    /// Replaces this interpreter ([`Pool::replace`]), unless the pool has replaced it already.
    fn replace_this(&self, interpreter: &Interpreter) -> Result<Option<Interpreter>> {
        let members = self.interpreters();
        let index = members.iter().position(|member| Arc::ptr_eq(&member.0, &interpreter.0));
        drop(members);
        index.map(|index| self.replace(index)).transpose()
    }

    /// Starts interpreters or gives some up, until there are `count`, while the others run. Those with the highest indices
    /// are given up. They end as a replaced one does ([`Pool::replace`]); this waits for the end of the unused ones.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`]. Then nothing has changed.
    pub fn resize(&self, count: usize) -> Result<()> {
        if count == 0 {
            return Err(no_interpreters());
        }
        let mut changes = self.changes()?;
        let mut members = self.interpreters().to_vec();
        let given_up = members.split_off(count.min(members.len()));
        let new = changes.grow(members.len(), count)?;
        for interpreter in &new {
            self.adopt(interpreter);
        }
        members.extend(new);
        self.publish(members);
        drop(changes);
        given_up.iter().for_each(Interpreter::retire);
        drop(given_up);
        Ok(())
    }

    /// Ends the pool's interpreters in parallel: gives this handle of the pool up, and waits, at most for `within`, until they
    /// are finalized and have returned their resources. Dropping the last handle does the same one after the other, without a
    /// limit.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::close`], for the first interpreter that has not ended in time. Other handles of the pool count as
    /// uses of its interpreters.
    pub fn close(self, within: Duration) -> Result<()> {
        let members = self.interpreters().to_vec();
        drop(self);
        close_all(members, within)
    }

    /// Settles the pool's interpreters, one after the other, in the directory of
    /// [`Builder::settle_in`](crate::Builder::settle_in): [`Interpreter::settle`].
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] if the builder names no directory. Else the first error of an interpreter; the others have been
    /// settled.
    pub fn settle(&self) -> Result<Vec<Settled>> {
        let interpreters = self.interpreters();
        let all: Vec<_> =
            interpreters.iter().map(|one| settle(&one.0, one.0.settling().directory()?)).collect();
        all.into_iter().collect()
    }

    /// A pool of new interpreters.
    fn start(
        python: Installation,
        configuration: Configuration,
        count: usize,
        queue: Queue,
        streams: Streams,
    ) -> Result<Self> {
        let mut changes =
            Changes { configuration, generations: Vec::new(), modules: Vec::new(), streams };
        let interpreters = changes.grow(0, count)?.into_boxed_slice();
        let pool = Self(Arc::new(PoolState {
            interpreters: ArcSwap::from_pointee(interpreters),
            python,
            queue: Arc::new(queue),
            changes: Some(Mutex::new(changes)),
            changing: AtomicI32::new(0),
        }));
        for interpreter in &pool.interpreters() {
            pool.adopt(interpreter);
        }
        Ok(pool)
    }

    /// Whether the interpreter was started for this pool.
    pub(crate) fn has(&self, interpreter: &Interpreter) -> bool {
        interpreter.is_owned_by(Arc::as_ptr(&self.0))
    }

    /// The right to change the pool.
    fn changes(&self) -> Result<Changing<'_>> {
        let changes = self.0.changes.as_ref().ok_or_else(|| {
            Error::Configuration(
                "the pool of this interpreter is gone, so nothing can be changed in it; keep a handle of the pool"
                    .to_owned(),
            )
        })?;
        let own = thread_number();
        let thread = &self.0.changing;
        if thread.load(Ordering::Relaxed) == own {
            return Err(Error::Configuration(
                "the pool is being changed by this very thread, which has called the application's code meanwhile (a function \
                 that makes streams, or a destructor); change the pool when that has returned"
                    .to_owned(),
            ));
        }
        // The thread that holds the lock may wait for this thread's GIL. After a panic some generation numbers are too
        // high; everything else is intact.
        let changes = without_gil(|| changes.lock().unwrap_or_else(PoisonError::into_inner));
        thread.store(own, Ordering::Relaxed);
        Ok(Changing { changes, thread })
    }

    /// Records that the interpreter belongs to this pool.
    fn adopt(&self, interpreter: &Interpreter) {
        let owner: Weak<PoolState> = Arc::downgrade(&self.0);
        interpreter.set_owner(owner);
        interpreter.0.leases().serve(&self.0.queue);
        dense::watch(&interpreter.0);
    }

    /// Makes these its interpreters.
    fn publish(&self, members: Vec<Interpreter>) {
        self.0.interpreters.store(Arc::new(members.into()));
        self.0.queue.wake();
    }

    /// Makes a module with this `source` importable as `name` in every interpreter, before anything on
    /// `sys.path`. A module already imported under that name is forgotten.
    ///
    /// # Errors
    ///
    /// None in practice: the source is compiled when it is imported.
    pub fn register_module(&self, name: &str, source: &str) -> Result<()> {
        let mut changes = self.0.changes.as_ref().map(|_| self.changes()).transpose()?;
        for interpreter in &self.interpreters() {
            register(interpreter, name, source)?;
        }
        if let Some(changes) = &mut changes {
            changes.modules.retain(|(known, _)| known != name);
            changes.modules.push((name.to_owned(), source.to_owned()));
        }
        Ok(())
    }
}

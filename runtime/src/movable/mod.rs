//! Objects that move to the interpreter that runs them.

mod load;
mod loaded;
pub(crate) mod memory;
mod owned_object;
mod reply;

pub use memory::{SharedMemory, shared_memory};
pub use reply::Reply;

use crate::Result;
use crate::convert::{FromPython, ToArguments, ToKeywords};
use crate::handle::Handle;
use crate::interpreter::{Interpreter, without_gil};
use crate::object::Object;
use crate::package::{MapLocation, Package};
use crate::pool::Pool;
use crate::session::Session;
use crate::wait_circles;
use hydrozoa_loader::DomainId;
use load::Source;
use loaded::Loaded;
use owned_object::OwnedObject;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// An object that every interpreter of a pool can use. Each interpreter loads its own copy at its first
/// use. All copies share the storages of their tensors.
///
/// The memory of a shared torch storage must stay in place. torch refuses to resize a storage that a
/// movable shares, as it refuses for a storage with a numpy view. Do not call other functions that move
/// the memory on the object that the movable was made of, because torch then frees memory that other
/// interpreters use: `share_memory_()` (call it first), and `resize_` on a GPU or without numpy. Stock
/// torch does the same to a numpy view of a tensor.
///
/// A handle: clones refer to the same movable, from any thread. After the last clone is dropped, each
/// interpreter drops its copy when it is next entered, or when [`Interpreter::drain`] is called. The
/// drop itself waits for no interpreter.
#[derive(Clone, Debug)]
pub struct Movable(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: Pool,
    source: Source,
    /// Copies by the domain of their interpreter. Never locked while Python runs or this thread waits for a GIL.
    copies: Mutex<HashMap<DomainId, Copy>>,
    /// Says for each interpreter whether it has a copy, to choose between them. Written with `copies` locked.
    loaded: Loaded,
    /// Some copy has been loaded, or has failed to.
    settled: Condvar,
    misses: Mutex<Misses>,
}

/// Uses of a movable on interpreters that had no copy of it; see [`Movable::misses`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// How many copies have been loaded.
    pub count: u64,
    /// The total time that loading took.
    pub time: Duration,
}

#[derive(Debug)]
enum Copy {
    /// That thread is loading it.
    Loading(ThreadId),
    /// The copy, as long as its interpreter lives.
    Loaded(Handle),
}

impl Pool {
    /// Makes an object of one of this pool's interpreters movable. The object is pickled once. The
    /// storages of its tensors and the memory of its numpy arrays are shared and not pickled.
    ///
    /// The object itself does not change. Its own interpreter also makes a copy when it uses the movable.
    /// Functions and classes travel by name: their modules must be importable everywhere, or be modules
    /// of a package.
    ///
    /// # Errors
    ///
    /// `PicklingError`, or the exception of the object's own reduction.
    pub fn create_movable(&self, object: &Object<'_>) -> Result<Movable> {
        Ok(Movable::new(self.clone(), Source::of_object(object)?))
    }
}

impl Session {
    /// [`Pool::create_movable`] for an object of this session. The movable belongs to the interpreter's
    /// pool.
    ///
    /// # Errors
    ///
    /// `PicklingError`, or the exception of the object's own reduction;
    /// [`Error::Foreign`](crate::Error::Foreign) for an object of another interpreter.
    pub fn create_movable(&self, object: &Object<'_>) -> Result<Movable> {
        object.handle_in(self)?;
        self.interpreter().pool().create_movable(object)
    }
}

impl Movable {
    fn new(pool: Pool, source: Source) -> Self {
        Self(Arc::new(Shared {
            pool,
            source,
            copies: Mutex::default(),
            loaded: Loaded::default(),
            settled: Condvar::new(),
            misses: Mutex::default(),
        }))
    }

    /// A movable of an object that a package has pickled.
    pub(crate) fn of_pickle(
        package: Package,
        name: String,
        resource: String,
        map: Option<MapLocation>,
    ) -> Self {
        let pool = package.pool().clone();
        Self::new(pool, Source::of_package(package, name, resource, map))
    }

    /// The items that could not be shared and are copied into every interpreter: one line for each, with
    /// the reason.
    pub fn copied(&self) -> &[String] {
        self.0.source.copied()
    }

    /// A session on the least loaded interpreter. If several are equally loaded, one that has a copy is
    /// preferred.
    ///
    /// # Errors
    ///
    /// As [`Pool::acquire`].
    pub fn acquire_session(&self) -> Result<Session> {
        self.0.pool.acquire_preferring(|interpreter| self.is_loaded(interpreter))
    }

    /// How often an interpreter had to load a copy, and how long loading took.
    pub fn misses(&self) -> Misses {
        *self.0.misses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether that interpreter has a copy.
    pub fn is_loaded(&self, interpreter: &Interpreter) -> bool {
        let noted = match self.0.pool.has(interpreter) {
            true => self.0.loaded.has(interpreter),
            false => None,
        };
        noted.unwrap_or_else(|| {
            matches!(self.0.copies().get(&interpreter.domain().id()), Some(Copy::Loaded(_)))
        })
    }

    /// Runs `action` with the interpreter's copy, on the interpreter of
    /// [`Movable::acquire_session`], in one turn of its GIL: several calls, and the extraction of their
    /// results.
    ///
    /// # Errors
    ///
    /// The errors of loading it, and those of `action`.
    pub fn with_object<R>(
        &self,
        action: impl for<'s> FnOnce(Object<'s>) -> Result<R>,
    ) -> Result<R> {
        let session = self.acquire_session()?;
        session.with_gil(|| action(self.to_object(&session)?))
    }

    /// Calls the object and takes its result, in one turn:
    /// `model.call_extract::<Vec<f32>>((x,))?`. [`Movable::call`] and [`Reply::extract`] are two.
    ///
    /// # Errors
    ///
    /// As [`Movable::call`], and [`Error::Convert`](crate::Error::Convert) if the result is not such a
    /// value.
    pub fn call_extract<T>(&self, arguments: impl ToArguments) -> Result<T>
    where
        T: for<'s> FromPython<'s>,
    {
        self.with_object(|object| object.call(arguments)?.extract())
    }

    /// Calls the object: `object(*arguments)`, on the interpreter of
    /// [`Movable::acquire_session`].
    ///
    /// # Errors
    ///
    /// The exception that loading or calling it raises.
    pub fn call<A: ToArguments>(&self, arguments: A) -> Result<Reply> {
        self.on_session(|object| object.call(arguments))
    }

    /// `object(*arguments, **keywords)`.
    ///
    /// # Errors
    ///
    /// As [`Movable::call`].
    pub fn call_kwargs<A: ToArguments, K: ToKeywords>(
        &self,
        arguments: A,
        keywords: K,
    ) -> Result<Reply> {
        self.on_session(|object| object.call_kwargs(arguments, keywords))
    }

    /// `object.method(*arguments)`.
    ///
    /// # Errors
    ///
    /// As [`Movable::call`], and `AttributeError`.
    pub fn call_method<A: ToArguments>(&self, method: &str, arguments: A) -> Result<Reply> {
        self.on_session(|object| object.call_method(method, arguments))
    }

    /// `object.method(*arguments, **keywords)`.
    ///
    /// # Errors
    ///
    /// As [`Movable::call_method`].
    pub fn call_method_kwargs<A: ToArguments, K: ToKeywords>(
        &self,
        method: &str,
        arguments: A,
        keywords: K,
    ) -> Result<Reply> {
        self.on_session(|object| object.call_method_kwargs(method, arguments, keywords))
    }

    fn on_session(
        &self,
        action: impl for<'s> FnOnce(Object<'s>) -> Result<Object<'s>>,
    ) -> Result<Reply> {
        let session = self.acquire_session()?;
        let value =
            session.with_gil(|| self.to_object(&session).and_then(action)).map(OwnedObject::new)?;
        Ok(Reply::new(session, value))
    }

    /// The copy of the session's interpreter, which is loaded at its first use there. If several threads
    /// ask at once, one loads it.
    ///
    /// # Errors
    ///
    /// The exception that loading it raises. The next call tries again.
    pub fn to_object<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        // Before any lock, so that no lock is held while this thread waits for a GIL.
        let _attached = session.attach();
        let key = session.inner().domain().id();
        let mut copies = self.0.copies();
        loop {
            match copies.get(&key) {
                Some(Copy::Loaded(copy)) => return copy.attach(session),
                Some(Copy::Loading(thread)) => {
                    let thread = *thread;
                    // Under the lock: the thread is loading it still.
                    let _waiting = wait_circles::wait_for(thread, self.0.thing(key))
                        .ok_or_else(needs_itself)?;
                    drop(copies);
                    self.0.wait(key, thread);
                    copies = self.0.copies();
                }
                None => break,
            }
        }
        copies.insert(key, Copy::Loading(thread::current().id()));
        drop(copies);
        // From here on the entry is removed unless it is filled, also after a panic.
        let loading = Loading { shared: &self.0, key };
        let begin = Instant::now();
        let object = self.0.source.load(session)?;
        self.0.missed(session, begin.elapsed());
        // Made before the lock is taken: no lock is held while Python runs.
        let copy = Copy::Loaded(object.keep());
        let mut copies = self.0.copies();
        copies.insert(key, copy);
        self.0.set_loaded(session.interpreter(), true);
        // Those of interpreters that the pool has replaced.
        let ended =
            copies.extract_if(|_, copy| matches!(copy, Copy::Loaded(copy) if !copy.lives()));
        let ended: Vec<_> = ended.collect();
        drop(copies);
        drop(ended);
        drop(loading);
        Ok(object)
    }

    /// Drops the copy of the session's interpreter. A later use loads it again.
    pub fn unload(&self, session: &Session) {
        let key = session.inner().domain().id();
        let mut copies = self.0.copies();
        if let Some(Copy::Loaded(_)) = copies.get(&key) {
            let copy = copies.remove(&key);
            self.0.set_loaded(session.interpreter(), false);
            drop(copies);
            drop(copy);
        }
    }
}

/// The error of a movable whose loading needs the movable, on this thread or by way of another one.
fn needs_itself() -> crate::Error {
    crate::Error::raise("RecursionError", "a movable is needed to load itself")
}

impl Shared {
    fn set_loaded(&self, interpreter: &Interpreter, loaded: bool) {
        if self.pool.has(interpreter) {
            self.loaded.set(interpreter, loaded);
        }
    }

    fn missed(&self, session: &Session, took: Duration) {
        let mut misses = self.misses.lock().unwrap_or_else(PoisonError::into_inner);
        misses.count += 1;
        misses.time += took;
        tracing::debug!(
            interpreter = session.interpreter().name(),
            took_us = took.as_micros() as u64,
            count = misses.count,
            "a movable was loaded"
        );
    }

    /// A copy that is loaded.
    fn thing(&self, key: DomainId) -> wait_circles::Thing {
        (std::ptr::from_ref(self).addr(), key.index() as usize)
    }

    fn copies(&self) -> MutexGuard<'_, HashMap<DomainId, Copy>> {
        // A panic happened between two changes, and each change is one call.
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until that thread has loaded the copy or failed to, without the GIL, which it needs.
    fn wait(&self, key: DomainId, thread: ThreadId) {
        let loading = |copies: &mut HashMap<_, _>| matches!(copies.get(&key), Some(Copy::Loading(now)) if *now == thread);
        without_gil(|| {
            let waited = self.settled.wait_while(self.copies(), loading);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        });
    }
}

/// The entry of a copy that this thread is loading.
struct Loading<'a> {
    shared: &'a Shared,
    key: DomainId,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut copies = self.shared.copies();
        if let Some(Copy::Loading(_)) = copies.get(&self.key) {
            copies.remove(&self.key);
        }
        drop(copies);
        wait_circles::made(self.shared.thing(self.key));
        self.shared.settled.notify_all();
    }
}

//! One complete CPython: its domain, its payload, and the threads that enter it.

mod attach;
mod live;
mod main_thread;
mod start;

pub(crate) use attach::{Attached, entered_from_python, without_gil};
pub(crate) use start::{Configuration, run_command, start};

use crate::payload::table::PayloadTable;
use crate::pool::Pool;
use crate::python::Installation;
use crate::session::Session;
use attach::Gate;
use hydrozoa_loader::Domain;
use main_thread::MainThread;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// One complete CPython interpreter in this process, with a GIL of its own.
///
/// A handle: clones refer to the same interpreter, which is finalized when the last handle, the
/// last [`Session`] and the last [`Tensor`](crate::Tensor) or [`Buffer`](crate::Buffer) taken from
/// it are dropped. That drop waits for the end, unless it happens inside of the interpreter (in a
/// host function on one of Python's own threads): then the interpreter ends on its own main thread,
/// after its other threads, as `threading` has it.
#[derive(Clone)]
pub struct Interpreter(pub(crate) Arc<Inner>);

/// What the handles of an interpreter share.
pub(crate) struct Inner {
    /// Position in its pool, from 0.
    index: usize,
    name: String,
    python: Installation,
    table: PayloadTable,
    /// Sessions that are open: the load by which a pool chooses.
    leases: AtomicUsize,
    /// Whether something was loaded since a session last ended: see [`crate::memory::give_back`].
    loaded: AtomicBool,
    gate: Arc<Gate>,
    /// The interpreters of its pool, once that is complete.
    siblings: OnceLock<Weak<[Interpreter]>>,
    domain: Domain,
    /// `None` only while this is dropped.
    main: Option<MainThread>,
}

impl Interpreter {
    /// Its position in its pool, from 0.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Its name, as it stands in messages: `interpreter 1` for index 1.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The pool that it belongs to; one of this interpreter alone, when that is gone.
    pub fn pool(&self) -> Pool {
        let siblings = self.0.siblings.get().and_then(Weak::upgrade);
        Pool::of(siblings.unwrap_or_else(|| Arc::new([self.clone()])), self.python().clone())
    }

    /// Whether both are of one pool.
    pub(crate) fn shares_pool_with(&self, other: &Self) -> bool {
        match (self.0.siblings.get(), other.0.siblings.get()) {
            (Some(own), Some(others)) => Weak::ptr_eq(own, others),
            _ => false,
        }
    }

    /// Says which interpreters are one pool.
    pub(crate) fn set_siblings(siblings: &Arc<[Self]>) {
        for interpreter in siblings.iter() {
            // An interpreter is started for one pool.
            let _ = interpreter.0.siblings.set(Arc::downgrade(siblings));
        }
    }

    /// The Python that it was loaded from.
    pub fn python(&self) -> &Installation {
        &self.0.python
    }

    /// The domain that holds its replicas.
    pub fn domain(&self) -> &Domain {
        self.0.domain()
    }

    /// How many sessions are open on it.
    pub fn leases(&self) -> usize {
        self.0.leases.load(Ordering::Relaxed)
    }

    /// A lease on this interpreter. Does not wait: sessions on one interpreter take turns by its
    /// GIL, call by call.
    pub fn session(&self) -> Session {
        self.0.leases.fetch_add(1, Ordering::Relaxed);
        Session::leased(self.clone())
    }

    /// Frees what was dropped by threads that did not hold this interpreter's GIL.
    ///
    /// A handle dropped outside of a call is queued, and freed by whichever thread enters the
    /// interpreter next. Call this when nobody may enter for long; it waits for the GIL. When it
    /// returns, what was queued before has been freed, or is being freed by a thread inside. Inside
    /// of a call or of [`Session::with_gil`] it does nothing: the next entry from outside does it.
    pub fn drain(&self) {
        drop(self.0.attach());
    }

    /// Takes the lease that [`Session::drop`] gives back, if nobody else has changed the count
    /// since `seen` was read.
    pub(crate) fn lease_if(&self, seen: usize) -> Option<Session> {
        self.0
            .leases
            .compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed)
            .ok()
            .map(|_| Session::leased(self.clone()))
    }

    /// Gives a lease back. With the last one after a load, what malloc has kept of it: a session around the model's first
    /// call ends after that call, and loading has sessions of its own inside.
    pub(crate) fn end_lease(&self) {
        let last = self.0.leases.fetch_sub(1, Ordering::Relaxed) == 1;
        if last && self.0.loaded.swap(false, Ordering::Relaxed) {
            crate::memory::give_back();
        }
    }

    /// Says that a package's object was loaded, which leaves free pieces all over the heap.
    pub(crate) fn has_loaded(&self) {
        self.0.loaded.store(true, Ordering::Relaxed);
    }
}

impl Inner {
    /// The payload's functions. Those marked *attached* need [`Inner::attach`] around them.
    pub(crate) fn table(&self) -> &PayloadTable {
        &self.table
    }

    /// The domain that holds its replicas.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }
}

impl Drop for Inner {
    /// Has the interpreter finalized, and waits for it unless this thread is inside of it: there it
    /// is finalized when this thread has gone on. Its replicas stay mapped: extension modules leave
    /// callbacks in system libraries behind (`atexit`, thread keys, libtorch's registries), and
    /// CPython itself is not proven to leave none.
    fn drop(&mut self) {
        // This is the last reference: no session is attached or can attach any more.
        live::remove(self.domain.id());
        self.gate.close();
        let Some(main) = self.main.take() else { return };
        if self.is_entered() {
            // The main thread waits for the GIL, which this thread may hold, and `threading._shutdown`
            // waits for this thread if it is one of Python's own.
            main.end_alone();
            return;
        }
        // This thread may hold the GIL of another interpreter, which the end of this one may need.
        without_gil(|| main.end());
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Interpreter")
            .field("name", &self.0.name)
            .field("python", &self.0.python.library())
            .field("leases", &self.leases())
            .finish()
    }
}

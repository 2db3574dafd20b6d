//! One complete CPython: its domain, its payload, and the threads that enter it.

mod attach;
mod close;
#[cfg(feature = "async")]
mod lazy_value;
mod leases;
mod live;
mod main_thread;
mod references;
#[cfg(feature = "async")]
mod resident;
mod start;
mod thread_end;
mod visitors;
mod weak;
pub(crate) mod whereabouts;

pub(crate) use attach::{
    Attached, called_by_anybody, called_from_python, entered_from_python, without_gil,
};
#[cfg(feature = "async")]
pub(crate) use resident::Residence;
pub(crate) use start::{Configuration, Flags, OnCrashed, run_command, start};
pub use weak::WeakInterpreter;

use crate::Error;
use crate::crash::contain::Guarded;
use crate::heap::Heap;
use crate::interrupt::{OnStuck, Sender, StuckVisits};
use crate::payload::table::{Handle, PayloadTable, Region};
use crate::python::Installation;
use crate::settled_pages::{Loan, Settling, Shared};
use close::End;
pub(crate) use close::close_all;
pub use close::wait_for_ends;
use hydrozoa_loader::Domain;
#[cfg(feature = "async")]
pub(crate) use lazy_value::Companion;
#[cfg(feature = "async")]
use lazy_value::LazyValue;
use leases::Leases;
pub(crate) use leases::Queue;
use main_thread::MainThread;
pub(crate) use references::ObjectReference;
use references::{Classes, ReferenceTable};
use std::any::{Any, TypeId};
use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, OnceLock, Weak};
use thread_end::Gate;
pub(crate) use visitors::Visitors;

/// One complete CPython interpreter in this process, with a GIL of its own.
///
/// A handle: clones refer to the same interpreter. It is finalized when the last handle, the last
/// [`Session`](crate::Session) and the last [`Tensor`](crate::Tensor) or [`Buffer`](crate::Buffer) taken from it are
/// dropped. That drop waits for the end. Inside the interpreter (in a host function on one of Python's own threads) it
/// does not wait: then the interpreter ends on its own main thread, after its other threads.
#[derive(Clone)]
pub struct Interpreter(pub(crate) Arc<Inner>);

/// The state that the handles of an interpreter share.
pub(crate) struct Inner {
    /// Position in its pool, from 0.
    index: usize,
    /// How many interpreters were at its position before.
    generation: usize,
    name: Arc<str>,
    python: Installation,
    table: PayloadTable,
    leases: Leases,
    gate: Arc<Gate>,
    /// The pool that it was started for.
    owner: OnceLock<Weak<Owner>>,
    /// References that are released before it ends.
    references: ReferenceTable,
    classes: Classes,
    /// Its event loop.
    #[cfg(feature = "async")]
    lazy_value: LazyValue,
    domain: Domain,
    /// Where its C++ objects are.
    heap: Option<&'static Heap>,
    sender: Sender,
    stuck: StuckVisits,
    on_stuck: OnStuck,
    end: Arc<End>,
    visitors: Arc<Visitors>,
    settling: Arc<Settling>,
    /// Its guarded functions, if it contains its crashes.
    guarded: Option<Arc<Guarded>>,
    /// `None` only while this is dropped.
    main: Option<MainThread>,
}

impl Interpreter {
    /// Its position in its pool, from 0.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// How many interpreters its pool has had at this position before ([`Pool::replace`](crate::Pool::replace)).
    pub fn generation(&self) -> usize {
        self.0.generation
    }

    /// Its name in messages: `interpreter 1` for index 1.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether both belong to one pool.
    pub(crate) fn shares_pool_with(&self, other: &Self) -> bool {
        match (self.0.owner.get(), other.0.owner.get()) {
            (Some(own), Some(others)) => Weak::ptr_eq(own, others),
            _ => false,
        }
    }

    /// The owner of [`Interpreter::set_owner`], unless it is gone.
    pub(crate) fn owner(&self) -> Option<Arc<Owner>> {
        self.0.owner.get().and_then(Weak::upgrade)
    }

    /// Whether that is what [`Interpreter::set_owner`] has noted.
    pub(crate) fn is_owned_by<T>(&self, owner: *const T) -> bool {
        self.0.owner.get().is_some_and(|noted| std::ptr::addr_eq(noted.as_ptr(), owner))
    }

    /// Notes which pool it belongs to. An interpreter is started for one pool.
    pub(crate) fn set_owner(&self, owner: Weak<Owner>) {
        let _ = self.0.owner.set(owner);
    }

    /// All interpreters of the process that have not begun to end.
    pub(crate) fn all() -> Vec<Self> {
        live::all().into_iter().map(Self).collect()
    }

    /// The Python that it was loaded from.
    pub fn python(&self) -> &Installation {
        &self.0.python
    }

    /// The domain that holds its replicas.
    pub fn domain(&self) -> &Domain {
        self.0.domain()
    }

    /// Whether its code has crashed, and the crash was contained
    /// ([`Builder::contain_crashes`](crate::Builder::contain_crashes)). All calls on it fail then, with
    /// [`Error::Crashed`](crate::Error::Crashed).
    pub fn has_crashed(&self) -> bool {
        self.0.has_crashed()
    }

    /// The number of open sessions on it.
    pub fn leases(&self) -> usize {
        self.0.leases.count()
    }

    /// Runs `action` when it has ended.
    pub(crate) fn at_end(&self, action: Box<dyn FnOnce() + Send>) {
        if let Some(main) = &self.0.main {
            main.at_end(action);
        }
    }

    /// Notes that it has left its pool.
    pub(crate) fn retire(&self) {
        if let Some(main) = &self.0.main {
            main.retire();
        }
    }

    /// Frees the objects that threads have dropped without this interpreter's GIL.
    ///
    /// A handle that is dropped outside a call is queued, and the next thread that enters the interpreter
    /// frees it. Call this if the next entry may be far away. It waits for the GIL. When it returns, everything
    /// that was queued before has been freed, or a thread inside is freeing it. Inside a call or
    /// [`Session::with_gil`](crate::Session::with_gil) it does nothing, and the next entry from outside frees the queue.
    pub fn drain(&self) {
        drop(self.0.attach());
    }
}

/// A pool, of which this module knows nothing.
type Owner = dyn Any + Send + Sync;

impl Inner {
    /// The payload's functions. Those marked *attached* need [`Inner::attach`] around them.
    pub(crate) fn table(&self) -> &PayloadTable {
        &self.table
    }

    /// The Python that it was loaded from.
    pub(crate) fn python(&self) -> &Installation {
        &self.python
    }

    /// Whether its code has crashed.
    pub(crate) fn has_crashed(&self) -> bool {
        self.guarded.as_ref().is_some_and(|guarded| guarded.contained().has_crashed())
    }

    /// The error of all calls, if its code has crashed.
    pub(crate) fn crash(&self) -> Option<Error> {
        let contained = self.guarded.as_ref()?.contained();
        contained.has_crashed().then(|| Error::Crashed { report: contained.report() })
    }

    /// Its open sessions.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The domain that holds its replicas.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The stack of its main thread.
    pub(crate) fn main_stack(&self) -> Option<Range<usize>> {
        self.main.as_ref()?.stack()
    }

    /// Its heap, if the addresses for one did not run out.
    pub(crate) fn heap(&self) -> Option<&'static Heap> {
        self.heap
    }

    /// Its position in its pool, from 0.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Exceptions for its threads.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The addresses at which arenas of its Python objects are. Attached, and without sub-interpreters, none comes or goes meanwhile.
    pub(crate) fn arenas(&self) -> Vec<Range<usize>> {
        unsafe extern "C" fn add(arenas: *mut c_void, arena: Region) {
            // SAFETY: the vector below, which nobody else uses.
            let arenas = unsafe { &mut *arenas.cast::<Vec<Range<usize>>>() };
            arenas.push(arena.start..arena.start + arena.length);
        }
        let mut arenas: Vec<Range<usize>> = Vec::new();
        let context: *mut Vec<Range<usize>> = &mut arenas;
        // SAFETY: `add` gets the vector that it expects, which outlives the call.
        unsafe { (self.table.arenas)(add, context.cast()) };
        arenas
    }

    /// Notes that others can write the memory at an address, if it is the interpreter's.
    pub(crate) fn lent(&self, data: *const c_void) -> Option<Loan> {
        let is_heaps = self.heap.is_some_and(|heap| heap.owns(data));
        // SAFETY: any thread may ask.
        let is_pythons = || unsafe { (self.table.owns)(data) } != 0;
        (is_heaps || is_pythons()).then(|| self.settling.lend())
    }

    /// Notes that other interpreters can write memory at these addresses, if it is of the interpreter's heap.
    pub(crate) fn shares(&self, range: Range<usize>) -> Option<Shared> {
        let is_heaps =
            self.heap.is_some_and(|heap| heap.owns(ptr::without_provenance(range.start)));
        is_heaps.then(|| self.settling.share(range))
    }

    /// The threads inside of it.
    pub(crate) fn visitors(&self) -> &Arc<Visitors> {
        &self.visitors
    }

    /// The record of its memory that lies in files.
    pub(crate) fn settling(&self) -> &Settling {
        &self.settling
    }

    /// Its class of a Rust type, if that was made. It lives as long as the interpreter.
    pub(crate) fn class(&self, id: TypeId) -> Option<Handle> {
        self.classes.get(id)
    }

    /// Notes its class of a Rust type, unless it already has one. True if the class was new.
    pub(crate) fn add_class(&self, id: TypeId, class: ObjectReference) -> bool {
        self.classes.add(id, class)
    }

    /// Its stuck calls.
    pub(crate) fn stuck(&self) -> &StuckVisits {
        &self.stuck
    }

    /// Its event loop.
    #[cfg(feature = "async")]
    pub(crate) fn lazy_value(&self) -> &LazyValue {
        &self.lazy_value
    }

    /// The reaction to a stuck call.
    pub(crate) fn on_stuck(&self) -> &OnStuck {
        &self.on_stuck
    }
}

impl Inner {
    /// Finalizes the interpreter, and waits for that if `waits`. If this thread is inside the interpreter, it does not
    /// wait: the interpreter is finalized after this thread has left. Its replicas are left to the next one
    /// (see [`Domain::retire`]).
    fn end(&mut self, waits: bool) {
        // This is the last reference: no session is attached or can attach any more.
        let Some(main) = self.main.take() else { return };
        live::remove(self.domain.id());
        self.gate.close();
        self.references.release_all(&self.table);
        #[cfg(feature = "async")]
        self.lazy_value.end();
        self.settling.recall();
        if !waits || self.is_entered() {
            // The main thread waits for the GIL, which this thread may hold, and `threading._shutdown`
            // waits for this thread if it is one of Python's own.
            main.end_alone();
            return;
        }
        // This thread may hold the GIL of another interpreter, which the end of this one may need.
        without_gil(|| main.end());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end(!whereabouts::tidies());
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inner").field("name", &self.name).finish_non_exhaustive()
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

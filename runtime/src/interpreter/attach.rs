//! Threads and GILs: a thread holds the GIL of at most one interpreter.
//!
//! Two interpreters have two GILs. A thread that waits for one while it holds the other could wait for
//! ever. So a thread that enters an interpreter from the code of another (in a host function that Python
//! called, or in a drop) releases the outer GIL meanwhile. To Python this looks like any C function that
//! releases the GIL.
//!
//! A thread's current domain ([`hydrozoa_loader::current`]) names the interpreter whose code it runs. A
//! session sets the domain when it enters, and Python's own threads begin in it. So a host function may
//! be called, and a lent owner dropped, on any of these threads.

use super::entries::{Closed, Entries, Entry};
use super::{Inner, held, live};
use crate::interrupt::{Watch, Watched};
use crate::payload::{Sink, table::PayloadTable};
use crate::thread::{settings, stack};
use hydrozoa_loader::{DomainId, current};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

/// The payload's flag in the token of an `enter` that made this thread's state.
const NEW_THREAD: c_int = 1 << 8;

thread_local! {
    /// The interpreters that this thread has left for another one, and returns to.
    static LEFT: RefCell<Vec<DomainId>> = const { RefCell::new(Vec::new()) };

    /// Whether this is a main thread that tidies its interpreter.
    static TIDIES: Cell<bool> = const { Cell::new(false) };

    /// The interpreters that keep a state for this thread.
    static STATES: States = const { States(RefCell::new(Vec::new())) };
}

/// This thread holds an interpreter's GIL, and runs in its domain, until this is dropped.
pub(crate) struct Attached<'a> {
    /// `None` inside of another visit, which holds the GIL longer than this. Most are so, and their drop is one comparison.
    entered: Option<Entered<'a>>,
    /// A GIL belongs to a thread.
    _thread: PhantomData<*mut ()>,
}

struct Entered<'a> {
    /// Ends under the GIL, so it is dropped first.
    watched: Option<Watched<'a>>,
    _visit: Visit<'a>,
}

impl<'a> Attached<'a> {
    /// Inside of another visit.
    #[inline]
    pub(crate) fn nested() -> Self {
        Self { entered: None, _thread: PhantomData }
    }

    fn by(visit: Visit<'a>) -> Self {
        Self { entered: Some(Entered { watched: None, _visit: visit }), _thread: PhantomData }
    }

    /// The same, noted for those who may interrupt it. Inside of another visit it is noted there, or nowhere.
    pub(crate) fn watched_by(mut self, watch: &'a Watch, inner: &'a Arc<Inner>) -> Self {
        if let Some(entered) = &mut self.entered {
            entered.watched = Some(watch.enter(inner));
        }
        self
    }
}

impl Drop for Attached<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.entered.is_some() {
            leave(&mut self.entered);
        }
    }
}

/// Not inlined: whoever attaches has a drop.
#[inline(never)]
fn leave(entered: &mut Option<Entered<'_>>) {
    *entered = None;
}

/// An entry that took the GIL.
struct Visit<'a> {
    inner: &'a Inner,
    /// Removed before the GIL is released: [`Visit::drop`] takes it.
    held: Option<held::Note>,
    token: c_int,
    /// Dropped after the GIL was released.
    _entry: Option<Entry<'a>>,
    /// What the host's thread had. A command's thread keeps what the program has set, to its end.
    _settings: settings::Kept,
    /// Dropped after the GIL was released: then the outer interpreter resumes.
    _outside: Outside,
}

impl Inner {
    /// Waits for the GIL and takes it. May be nested.
    #[inline]
    pub(crate) fn attach(self: &Arc<Self>) -> Attached<'_> {
        match self.is_held() {
            true => Attached::nested(),
            false => self.attach_unless_nested(),
        }
    }

    /// Whether the calling thread holds the GIL, by its last entry that was noted. It may hold it otherwise.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        held::is_of(self)
    }

    fn attach_unless_nested(self: &Arc<Self>) -> Attached<'_> {
        // A thread that runs this interpreter's code under its GIL has nothing to take: whoever took
        // it is further up the stack, and gives it back after this guard has been dropped.
        if current::domain() == Some(self.domain().id()) && self.is_attached() {
            return Attached::nested();
        }
        Attached::by(self.visit())
    }

    /// Whether the calling thread holds the GIL, as the interpreter knows.
    fn is_attached(&self) -> bool {
        // SAFETY: any thread may ask.
        unsafe { (self.table.attached)() != 0 }
    }

    /// The same for the one thread that may enter while nobody else may, and that is not inside.
    pub(crate) fn attach_alone<'a>(self: &'a Arc<Self>, _: &Closed<'a>) -> Attached<'a> {
        let visit = self.enter(Outside::entering(self.domain().id()), None);
        Attached::by(visit)
    }

    #[inline]
    fn visit(self: &Arc<Self>) -> Visit<'_> {
        // Another interpreter's GIL is released first: this may wait.
        let outside = Outside::entering(self.domain().id());
        // A thread that nobody has marked may have taken the GIL by itself (`PyGILState_Ensure`). A thread that keeps others
        // outside waits for that GIL.
        let entry = self.entries.enter(|| self.is_attached());
        self.enter(outside, entry)
    }

    #[inline]
    fn enter<'a>(self: &'a Arc<Self>, outside: Outside, entry: Option<Entry<'a>>) -> Visit<'a> {
        let settings = settings::Kept::begin();
        // SAFETY: the interpreter is started (an `Inner` exists only then) and not finalized (this
        // reference keeps it alive), and this thread runs in its domain.
        let token = unsafe { (self.table.enter)(stack::room()) };
        if token & NEW_THREAD != 0 {
            // Fails only while the thread's own destructors run; the state then lives as long as
            // the interpreter.
            let _ = STATES.try_with(|states| states.add(&self.gate));
        }
        Visit {
            inner: self,
            held: Some(held::of(self)),
            token,
            _entry: entry,
            _settings: settings,
            _outside: outside,
        }
    }

    /// Whether another thread than this one is inside, from outside.
    pub(super) fn has_visitors(&self) -> bool {
        self.entries().count() > usize::from(self.is_entered())
    }

    /// Whether this thread runs the interpreter's code, or returns to it further down its stack.
    /// The interpreter cannot be finalized then until this thread has gone on.
    pub(super) fn is_entered(&self) -> bool {
        let domain = self.domain().id();
        current::domain() == Some(domain)
            || LEFT.try_with(|left| left.borrow().contains(&domain)).unwrap_or(false)
            // A thread that neither a session nor the interpreter has made may have come by Python's
            // own `PyGILState_Ensure`, as ctypes' callbacks do.
            || self.is_attached()
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        drop(self.held.take());
        // SAFETY: the token is that of this thread's `enter`, and guards nest as scopes do.
        unsafe { (self.inner.table.leave)(self.token) };
    }
}

/// Frees what nobody uses any more, from the interpreter's own main thread. It has no reference to the interpreter, so the drop of the
/// last one waits for the end as ever.
pub(super) fn tidy(domain: DomainId, table: &PayloadTable, entries: &Entries) -> crate::Result<()> {
    let _outside = Outside::entering(domain);
    let _entry = entries.enter(|| false);
    TIDIES.set(true);
    let mut sink = Sink::default();
    // SAFETY: the interpreter is started, the thread runs in its domain, and finalizes it later. It is attached in between.
    let status = unsafe {
        let token = (table.enter)(stack::room());
        let status = (table.collect)(false, sink.pointer());
        (table.leave)(token);
        status
    };
    TIDIES.set(false);
    sink.check(status)
}

/// Whether the calling thread tidies its interpreter. It must not wait for the end of another one, which may be tidied just now as well and
/// let go of this one.
pub(super) fn tidies() -> bool {
    TIDIES.get()
}

/// Runs `action`, which may wait for other threads, without the GIL that this thread holds, if any.
/// The GIL is taken back afterwards.
pub(crate) fn without_gil<R>(action: impl FnOnce() -> R) -> R {
    let _suspended = current::domain().and_then(live::find).map(Suspended::new);
    action()
}

/// An interpreter whose GIL this thread has released, if it had it. It is taken back when this is
/// dropped, also after a panic.
struct Suspended {
    /// Keeps the interpreter from ending, since this thread returns to it.
    inner: Arc<Inner>,
    state: *mut c_void,
    /// Dropped after the GIL was taken back.
    _held: held::Note,
}

impl Suspended {
    fn new(inner: Arc<Inner>) -> Self {
        // SAFETY: `suspend` does nothing unless this thread holds the GIL; `resume` follows on this
        // thread, since the state is not `Send`.
        let state = unsafe { (inner.table.suspend)() };
        Self { inner, state, _held: held::unknown() }
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        if !self.state.is_null() {
            // SAFETY: the state is the one that `suspend` returned, on this thread.
            unsafe { (self.inner.table.resume)(self.state) };
        }
    }
}

/// A thread's visit to a domain, from whichever code it runs.
pub(super) struct Outside {
    _domain: current::Entered,
    _left: Option<Left>,
}

impl Outside {
    /// Steps out of the interpreter that this thread is inside of, if any, and into a domain.
    #[inline]
    pub(super) fn entering(domain: DomainId) -> Self {
        let before = current::domain();
        // One that is ending is not found, and keeps its GIL: only threads that are in it want that
        // one still, and they let go of other GILs before they wait for it.
        let left = before.filter(|before| *before != domain).and_then(live::find).map(Left::new);
        // SAFETY: the thread runs the domain's code next; the code of the domain before goes on after this was dropped.
        let entered = unsafe { current::enter(domain) };
        Self { _domain: entered, _left: left }
    }
}

/// An interpreter that this thread is inside of and has left for another one.
struct Left {
    suspended: Suspended,
}

impl Left {
    fn new(inner: Arc<Inner>) -> Self {
        // While the thread's own destructors run it returns to no Python.
        let _ = LEFT.try_with(|left| left.borrow_mut().push(inner.domain().id()));
        Self { suspended: Suspended::new(inner) }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let domain = self.suspended.inner.domain().id();
        // Not the last one where code switches between stacks (greenlets): its visits do not nest.
        let _ = LEFT.try_with(|left| {
            let mut left = left.borrow_mut();
            let place = left.iter().rposition(|one| *one == domain);
            place.map(|place| left.remove(place))
        });
    }
}

/// What an ending thread needs to have its state in an interpreter freed. Not the interpreter
/// itself: it shall end with its last handle, not when some thread gets round to letting go of it.
pub(super) struct Gate {
    table: PayloadTable,
    /// Whether the interpreter has not begun to end. Held for reading while a state is handed over.
    open: RwLock<bool>,
}

impl Gate {
    pub(super) fn new(table: PayloadTable) -> Arc<Self> {
        Arc::new(Self { table, open: RwLock::new(true) })
    }

    /// From now on no ending thread calls the payload; waits for those that do, which wait for
    /// nothing themselves.
    pub(super) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn is_open(&self) -> bool {
        *self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_thread(&self) {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if *open {
            // SAFETY: the interpreter lives while the gate is held open, and a thread that runs its
            // destructors is attached to nothing.
            unsafe { (self.table.forget_thread)() };
        }
    }
}

/// Hands this thread's state in each interpreter over when the thread ends: the interpreter frees
/// it at its next entry. The thread waits for no GIL, since a thread that joins it may hold that.
struct States(RefCell<Vec<Arc<Gate>>>);

impl States {
    fn add(&self, gate: &Arc<Gate>) {
        let mut gates = self.0.borrow_mut();
        // A thread that lives on may see many interpreters come and go.
        gates.retain(|gate| gate.is_open());
        gates.push(gate.clone());
    }
}

impl Drop for States {
    fn drop(&mut self) {
        // The process's first thread ends with the process: destructors of the libraries in an
        // interpreter that is still alive run behind this one, and enter it on this thread (those
        // of libtorch_python do, to let go of what it has registered).
        // SAFETY: neither call has a precondition.
        if unsafe { libc::gettid() == libc::getpid() } {
            return;
        }
        for gate in self.0.take() {
            gate.forget_thread();
        }
    }
}

/// Marks this thread as inside `domain` for the time of `action`: for owners that Python code lets go of, maybe on a
/// thread that neither a session nor Python has made (one that calls a function of ctypes), and maybe without the GIL.
pub(crate) fn entered_from_python<R>(domain: DomainId, action: impl FnOnce() -> R) -> R {
    // SAFETY: code of this domain has called, and goes on afterwards.
    let _entered = unsafe { current::enter(domain) };
    let _held = held::unknown();
    action()
}

/// The same where Python code calls the host under the interpreter's GIL: for host functions.
pub(crate) fn called_from_python<R>(inner: &Inner, action: impl FnOnce() -> R) -> R {
    // SAFETY: code of this interpreter has called, and goes on afterwards.
    let _entered = unsafe { current::enter(inner.domain().id()) };
    let _held = held::of(inner);
    action()
}

/// Calls `action` from foreign code, of which it is not known whether it holds a GIL: for deleters.
pub(crate) fn called_by_anybody<R>(action: impl FnOnce() -> R) -> R {
    let _held = held::unknown();
    action()
}

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

use super::thread_end::hand_over_state;
use super::visitors::{Closed, Visitor, Visitors};
use super::whereabouts::{Note, Return, note_left, note_nothing, tidying};
use super::{Inner, live};
use crate::interrupt::{Watch, Watched};
use crate::payload::{Sink, table::PayloadTable};
use crate::thread::{settings, stack};
use hydrozoa_loader::{DomainId, current};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

/// The payload's flag in the token of an `enter` that made this thread's state.
pub(super) const NEW_THREAD: c_int = 1 << 8;

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

/// Not inlined: each caller that attaches contains a drop.
#[inline(never)]
fn leave(entered: &mut Option<Entered<'_>>) {
    *entered = None;
}

/// An entry that took the GIL.
struct Visit<'a> {
    inner: &'a Inner,
    /// Removed before the GIL is released: [`Visit::drop`] takes it.
    note: Option<Note>,
    token: c_int,
    /// Dropped after the GIL was released.
    _visitor: Option<Visitor<'a>>,
    /// The settings of the host's thread. A command's thread keeps those that the program has set, to its end.
    _settings: settings::KeptSettings,
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

    /// As [`Inner::attach`], on a thread for which [`Inner::is_held`] has said no.
    pub(crate) fn attach_unless_nested(self: &Arc<Self>) -> Attached<'_> {
        // A thread that runs this interpreter's code under its GIL has nothing to take: the frame that
        // took it is further up the stack, and gives it back after this guard has been dropped.
        if self.is_current() && self.is_attached() {
            return Attached::nested();
        }
        Attached::by(self.visit())
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
        // An unmarked thread may have taken the GIL by itself (`PyGILState_Ensure`). A thread that keeps others
        // outside waits for that GIL.
        let visitor = self.visitors.enter(|| self.is_attached());
        self.settling.prefetch();
        self.enter(outside, visitor)
    }

    #[inline]
    fn enter<'a>(self: &'a Arc<Self>, outside: Outside, visitor: Option<Visitor<'a>>) -> Visit<'a> {
        let settings = settings::KeptSettings::begin();
        // SAFETY: the interpreter is started (an `Inner` exists only then) and not finalized (this
        // reference keeps it alive), and this thread runs in its domain.
        let token = unsafe { (self.table.enter)(stack::room()) };
        if token & NEW_THREAD != 0 {
            hand_over_state(&self.gate);
        }
        Visit {
            inner: self,
            note: Some(self.note_visit()),
            token,
            _visitor: visitor,
            _settings: settings,
            _outside: outside,
        }
    }

    /// Whether another thread than this one is inside, from outside.
    pub(super) fn has_visitors(&self) -> bool {
        self.visitors().count() > usize::from(self.is_entered())
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        drop(self.note.take());
        // SAFETY: the token is that of this thread's `enter`, and guards nest as scopes do.
        unsafe { (self.inner.table.leave)(self.token) };
    }
}

/// Frees what nobody uses any more, from the interpreter's own main thread. It has no reference to the interpreter, so the drop of the
/// last one waits for the end as ever.
pub(super) fn tidy(
    domain: DomainId,
    table: &PayloadTable,
    visitors: &Visitors,
) -> crate::Result<()> {
    let _outside = Outside::entering(domain);
    let _visitor = visitors.enter(|| false);
    let mut sink = Sink::default();
    // SAFETY: the interpreter is started, the thread runs in its domain, and finalizes it later. It is attached in between.
    let status = tidying(|| unsafe {
        let token = (table.enter)(stack::room());
        let status = (table.collect)(false, sink.pointer());
        (table.leave)(token);
        status
    });
    sink.check(status)
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
    _note: Note,
}

impl Suspended {
    fn new(inner: Arc<Inner>) -> Self {
        // SAFETY: `suspend` does nothing unless this thread holds the GIL; `resume` follows on this
        // thread, since the state is not `Send`.
        let state = unsafe { (inner.table.suspend)() };
        Self { inner, state, _note: note_nothing() }
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
    _return: Return,
    /// Dropped last: it may wait for the GIL.
    _suspended: Suspended,
}

impl Left {
    fn new(inner: Arc<Inner>) -> Self {
        let to = note_left(inner.domain().id());
        Self { _return: to, _suspended: Suspended::new(inner) }
    }
}

/// Marks this thread as inside `domain` for the time of `action`: for owners that Python code lets go of, maybe on a
/// thread that neither a session nor Python has made (one that calls a function of ctypes), and maybe without the GIL.
pub(crate) fn entered_from_python<R>(domain: DomainId, action: impl FnOnce() -> R) -> R {
    // SAFETY: code of this domain has called, and goes on afterwards.
    let _entered = unsafe { current::enter(domain) };
    let _note = note_nothing();
    action()
}

/// The same where Python code calls the host under the interpreter's GIL: for host functions.
pub(crate) fn called_from_python<R>(inner: &Inner, action: impl FnOnce() -> R) -> R {
    // SAFETY: code of this interpreter has called, and goes on afterwards.
    let _entered = unsafe { current::enter(inner.domain().id()) };
    let _note = inner.note_visit();
    action()
}

/// Calls `action` from foreign code, of which it is not known whether it holds a GIL: for deleters.
pub(crate) fn called_by_anybody<R>(action: impl FnOnce() -> R) -> R {
    let _note = note_nothing();
    action()
}

//! A lease on one interpreter. Its objects live no longer than the lease.

use crate::Result;
use crate::interpreter::{Attached, Inner, Interpreter, whereabouts, without_gil};
use crate::interrupt::{self, InterruptHandle, Watch};
use crate::memory;
use crate::payload::{Sink, table::Status};
use crate::thread::stack;
use std::any::Any;
use std::ffi::c_long;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// A lease on one interpreter.
///
/// The pool counts leases to find the least loaded interpreter. A lease is not exclusive: several sessions
/// on one interpreter take turns by its GIL, which is held only during calls.
/// [`Pool::acquire_timeout`](crate::Pool::acquire_timeout) leases an interpreter that has no other session.
///
/// ```compile_fail
/// # fn f(pool: hydrozoa::Pool) -> hydrozoa::Result<()> {
/// let module = {
///     let session = pool.acquire()?;
///     session.import("math")? // does not live long enough
/// };
/// # Ok(()) }
/// ```
pub struct Session {
    interpreter: Interpreter,
    /// The object that it was acquired from, unless that is a pool.
    origin: Option<Box<dyn Any + Send + Sync>>,
    /// Records its calls, once somebody may interrupt them.
    watch: OnceLock<Arc<Watch>>,
}

impl Session {
    /// Notes the object that it was acquired from.
    pub(crate) fn with_origin(mut self, origin: impl Any + Send + Sync) -> Self {
        self.origin = Some(Box::new(origin));
        self
    }

    /// The object that it was acquired from, if that is a `T`.
    pub(crate) fn origin<T: Any>(&self) -> Option<&T> {
        self.origin.as_deref()?.downcast_ref()
    }

    /// The leased interpreter.
    pub fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    /// Holds the GIL during `action`. The calls in it are then one turn, and none of them has to take the
    /// GIL. Calls of other threads on this interpreter wait meanwhile. Code in `action` that waits for such
    /// a thread waits for ever, unless it does so inside [`Session::without_gil`].
    ///
    /// A thread holds the GIL of at most one interpreter. If `action` enters another interpreter, this one's GIL is released
    /// meanwhile, and the calls before and after are two turns.
    pub fn with_gil<R>(&self, action: impl FnOnce() -> R) -> R {
        let _attached = self.attach();
        action()
    }

    /// Releases the GIL during `action`, so that `action` may wait for other threads: for a lock, a channel,
    /// the end of a thread, or long work. Inside [`Session::with_gil`] and in a host function
    /// ([`Session::function`]) the GIL is held. If code there waits for a thread that enters this
    /// interpreter, it must wait inside `without_gil`. Elsewhere `without_gil` only calls `action`.
    ///
    /// `action` may do anything. Objects stay valid, and each operation on one takes the GIL for its own
    /// time, as outside `with_gil`. Other threads may have changed the objects meanwhile. `with_gil`,
    /// `without_gil` and sessions of other interpreters may be nested. After `action`, also after a panic in
    /// it, this waits for the GIL and takes it back.
    ///
    /// A thread holds the GIL of at most one interpreter. If the thread is running another interpreter's code,
    /// that interpreter's GIL is released.
    ///
    /// ```no_run
    /// # use std::sync::{Mutex, mpsc::Receiver};
    /// # fn f(session: &hydrozoa::Session, work: Mutex<Receiver<i64>>) -> hydrozoa::Result<()> {
    /// let next = session.function("next", move |session, _| {
    ///     let item = session.without_gil(|| work.lock().unwrap().recv());
    ///     session.object_from(&item.unwrap_or(-1))
    /// })?;
    /// # Ok(()) }
    /// ```
    pub fn without_gil<R>(&self, action: impl FnOnce() -> R) -> R {
        without_gil(action)
    }

    /// A handle by which other threads interrupt the calls of this session.
    ///
    /// It does not reach calls that have already begun. From now on each call on the session costs some hundred
    /// nanoseconds more.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        interrupt::handle(self.inner(), self.watch.get_or_init(Arc::default))
    }

    /// Calls `action`, and interrupts the Python code that it runs on this thread, in this session's interpreter, when
    /// `limit` has passed.
    ///
    /// Python then raises `_hydrozoa.interrupts.DeadlineExceeded`, a `KeyboardInterrupt`, within about 10 ms, and the call
    /// that runs returns [`Error::Deadline`](crate::Error::Deadline). The rules of
    /// [`InterruptHandle::interrupt`] apply: native code is not interrupted, and a call that goes on for 30 ms
    /// counts as [`Stuck`](crate::Stuck).
    ///
    /// The time in which a call waits for the GIL counts. If the deadline passes meanwhile, the call does not begin: it
    /// returns [`Error::Deadline`](crate::Error::Deadline) without a traceback as soon as it has the GIL. The wait itself is
    /// as long as others keep the GIL: 5 ms for each that runs bytecode, longer for native code that does not release it. A
    /// session that is alone on its interpreter ([`Pool::acquire_timeout`](crate::Pool::acquire_timeout)) never waits for others.
    ///
    /// If `action` ends before Python has raised the exception, nothing is raised. Deadlines may be nested; the nearest
    /// comes first.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn f(session: &hydrozoa::Session) -> hydrozoa::Result<()> {
    /// let model = session.import("model")?;
    /// let limit = Duration::from_millis(200);
    /// match session.with_deadline(limit, || model.call_method("predict", (3.0,))) {
    ///     Err(hydrozoa::Error::Deadline { traceback }) => eprintln!("too late, it was in\n{traceback}"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn with_deadline<R>(&self, limit: Duration, action: impl FnOnce() -> R) -> R {
        interrupt::with_deadline(self.inner(), limit, action)
    }

    /// Calls `action`, which may import much. Meanwhile Python rarely collects garbage.
    pub(crate) fn collecting_seldom<R>(&self, action: impl FnOnce() -> R) -> R {
        let begin = || {
            let _attached = self.attach();
            // SAFETY: the thread is attached.
            unsafe { (self.inner().table().collect_seldom)() }
        };
        let _undone = Seldom { session: self, before: begin() };
        action()
    }

    #[inline]
    pub(crate) fn attach(&self) -> Attached<'_> {
        match self.interpreter.0.is_held() {
            true => Attached::nested(),
            false => self.visit(),
        }
    }

    #[inline(never)]
    fn visit(&self) -> Attached<'_> {
        let inner = &self.interpreter.0;
        match self.watch.get() {
            None => inner.attach_unless_nested(),
            Some(watch) => inner.attach_unless_nested().watched_by(watch, inner),
        }
    }

    /// A session for a host function that is called in the visit of another session on this thread: that one's lease is
    /// enough, and keeps the interpreter.
    pub(crate) fn of_visit(interpreter: &Weak<Inner>) -> Option<Borrowed> {
        let inner = interpreter.as_ptr();
        if !whereabouts::is_noted(inner) {
            return None;
        }
        // SAFETY: a visit, or the caller of a host function, further up this thread's stack has a strong reference, and
        // keeps it until after this call. `Borrowed` does not give up the reference that is made up here.
        let interpreter = Interpreter(unsafe { Arc::from_raw(inner) });
        Some(Borrowed(ManuallyDrop::new(Self::on(interpreter))))
    }

    fn on(interpreter: Interpreter) -> Self {
        Self { interpreter, origin: None, watch: OnceLock::new() }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.interpreter.0
    }

    /// Runs one table function that yields nothing, or writes through captured pointers.
    #[inline]
    pub(crate) fn perform(
        &self,
        call: impl FnOnce(&Inner, *mut std::ffi::c_void) -> Status,
    ) -> Result<()> {
        stack::check()?;
        let _attached = self.attach();
        interrupt::begin(self.inner())?;
        let mut sink = Sink::of(self.inner());
        let status = call(self.inner(), sink.pointer());
        sink.check(status)
    }
}

/// A session without a lease of its own, and without a reference to its interpreter.
pub(crate) struct Borrowed(ManuallyDrop<Session>);

impl Deref for Borrowed {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.0.watch.take();
        self.0.origin.take();
    }
}

/// While this lives, Python rarely collects garbage.
struct Seldom<'session> {
    session: &'session Session,
    before: c_long,
}

impl Drop for Seldom<'_> {
    fn drop(&mut self) {
        let _attached = self.session.attach();
        // SAFETY: the thread is attached, and the value is that of `collect_seldom`.
        unsafe { (self.session.inner().table().collect_as_before)(self.before) };
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = formatter.debug_struct("Session");
        described.field("interpreter", &self.interpreter).finish_non_exhaustive()
    }
}

impl Drop for Session {
    /// Ends the lease. After a load, the last one has free pages go back to the kernel.
    fn drop(&mut self) {
        if self.inner().leases().end() {
            memory::give_back(&self.interpreter);
        }
    }
}

impl Interpreter {
    /// A lease on this interpreter. Does not wait: sessions on one interpreter take turns by its
    /// GIL, call by call.
    pub fn session(&self) -> Session {
        self.0.leases().add();
        Session::on(self.clone())
    }

    /// The same, if nobody else has changed the number of leases since `seen` was read.
    pub(crate) fn session_if(&self, seen: usize) -> Option<Session> {
        let leased = self.0.leases().add_if(seen);
        leased.then(|| Session::on(self.clone()))
    }
}

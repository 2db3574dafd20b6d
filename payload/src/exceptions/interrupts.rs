//! Exceptions that the host raises in threads that run Python code.

use crate::allocators::memory_limit::Lifted;
use crate::api::fault::{Fault, Outcome};
use crate::api::reference::Ref;
use crate::api::under_gil::UnderGil;
use crate::exceptions::report::{self, guarded};
use crate::exceptions::safe_points::{self, Moment, Wrong, moment};
use crate::exceptions::switch_interval;
use crate::table::{Interrupt, Progress, Status};
use crate::threads;
use crate::threads::recursion::minor;
use pyo3_ffi::{
    PyErr_Clear, PyErr_SetNone, PyGC_Disable, PyGC_Enable, PyImport_Import, PyInterpreterState,
    PyInterpreterState_Get, PyInterpreterState_ThreadHead, PyObject, PyObject_GetAttr,
    PyThread_get_thread_ident, PyThreadState, PyThreadState_Get, PyThreadState_GetInterpreter,
    PyThreadState_Next, PyThreadState_SetAsyncExc,
};
use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

unsafe extern "C" {
    /// Has a thread of the interpreter call `function` when it looks next. With `flags` 0 it is any thread, since 3.12
    /// (Python/ceval_gil.c). -1 if too many calls wait. Later releases export it for their tests
    /// (Include/internal/pycore_ceval.h).
    fn _PyEval_AddPendingCall(
        interpreter: *mut PyInterpreterState,
        function: unsafe extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
        flags: c_int,
    ) -> c_int;
}

/// Whether any thread was ever interrupted.
static USED: AtomicBool = AtomicBool::new(false);

/// See [`crate::table::PayloadTable::interrupt`].
///
/// Up to 3.11, this looks where the thread is, and leaves the exception (`PyThreadState_SetAsyncExc`). A thread that has let
/// go of the GIL because another one wants it raises the exception where it is. Since 3.13 it goes on and raises it where it
/// looks next. But since 3.12 any thread runs pending calls, and so the thread looks itself where it is, and raises it.
///
/// The GIL is not released between the host's look at the call and the exception: the call might end meanwhile, and other code
/// on its thread would be hit. So a class that is needed for the first time is looked up, which runs Python code, and nothing
/// is done.
pub(crate) unsafe extern "C" fn interrupt(
    thread: u64,
    reason: Interrupt,
    progress: *mut Progress,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a valid place.
    unsafe {
        guarded(sink, || {
            USED.store(true, Ordering::Relaxed);
            *progress = match (reason, kept_class(reason)) {
                (Interrupt::NONE, _) => take_back(thread),
                (_, Some(class)) if looks_itself() => ask(thread, class, *progress),
                (_, Some(class)) => leave(thread, class),
                (_, None) => {
                    keep_class(reason)?;
                    Progress::NEW
                }
            };
            if switch_interval::shorten((*REQUESTS.as_ptr()).iter().any(Request::is_held)).is_err()
            {
                // The program has taken the functions away.
                PyErr_Clear();
            }
            Ok(())
        })
    }
}

/// Looks up the classes, which imports a module: the first interrupt should not. See
/// [`crate::table::PayloadTable::prepare_interrupts`].
pub(crate) unsafe extern "C" fn prepare(sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes its own sink. The import may have let another thread keep the class meanwhile: the
    // first one is used.
    unsafe {
        guarded(sink, || {
            report::prepare();
            for reason in [Interrupt::HANDLE, Interrupt::DEADLINE] {
                if kept_class(reason).is_none() {
                    keep_class(reason)?;
                }
            }
            Ok(())
        })
    }
}

/// Whether a thread looks itself where it is.
fn looks_itself() -> bool {
    minor().is_none_or(|minor| minor >= 12)
}

/// An exception that waits for the right moment of a thread.
struct Request {
    thread: u64,
    class: *mut PyObject,
    since: Instant,
    /// How often the moment was looked at.
    looks: u32,
    /// When the thread was last found running code in which nothing may be raised.
    ran: Option<Instant>,
    /// Its run time until then.
    used: Duration,
}

/// One for each thread at most.
static REQUESTS: UnderGil<Vec<Request>> = UnderGil::new(Vec::new());

/// The request for a thread, if there is one.
///
/// # Safety
///
/// The caller is attached as long as it uses the result, and asks for no other one meanwhile.
unsafe fn request_of<'a>(thread: u64) -> Option<&'a mut Request> {
    // SAFETY: by contract.
    unsafe { &mut *REQUESTS.as_ptr() }.iter_mut().find(|request| request.thread == thread)
}

/// The request for a thread, which is made unless there is one.
///
/// # Safety
///
/// As for [`request_of`].
unsafe fn request<'a>(thread: u64, class: *mut PyObject) -> &'a mut Request {
    // SAFETY: by contract.
    unsafe {
        if request_of(thread).is_none() {
            let (since, used) = (Instant::now(), Duration::ZERO);
            let new = Request { thread, class, since, looks: 0, ran: None, used };
            (*REQUESTS.as_ptr()).push(new);
        }
        let request = request_of(thread).expect("it was made");
        request.class = class;
        request
    }
}

/// # Safety
///
/// The caller is attached.
unsafe fn remove_request(thread: u64) {
    // SAFETY: by contract.
    unsafe { (*REQUESTS.as_ptr()).retain(|request| request.thread != thread) };
}

impl Request {
    /// Code in which nothing may be raised gets so much time. A finalizer may have an endless loop.
    const LONG: Duration = Duration::from_secs(1);

    /// And so many looks: on a busy machine a second has few.
    const OFTEN: u32 = 100;

    /// A thread that waits without the GIL gets so much time to come to a place where CPython looks.
    const SHORT: Duration = Duration::from_millis(10);

    /// A thread that runs is found running within this time, unless the machine is busy.
    const STILL: Duration = Duration::from_millis(20);

    /// Whether the thread runs code in which nothing may be raised.
    fn is_held(&self) -> bool {
        self.ran.is_some_and(|ran| ran.elapsed() < Self::STILL)
    }

    fn progress(&self) -> Progress {
        if self.is_held() { Progress::HELD } else { Progress::WAITS }
    }

    /// Whether it may be raised at such a moment.
    fn may(&mut self, moment: Moment) -> bool {
        self.looks = self.looks.saturating_add(1);
        let waited = self.since.elapsed();
        match moment {
            Moment::Right => true,
            Moment::Wrong(Wrong::Forever) => false,
            Moment::Wrong(Wrong::Long) => waited >= Self::LONG && self.looks >= Self::OFTEN,
            Moment::Wrong(Wrong::Inexact) => waited >= Self::SHORT,
        }
    }
}

/// Takes back the exceptions that wait for a thread or were left for it.
///
/// # Safety
///
/// The caller is attached.
unsafe fn take_back(thread: u64) -> Progress {
    // SAFETY: attached, by contract.
    unsafe {
        remove_request(thread);
        if looks_itself() {
            return Progress::DONE;
        }
        if states_of(thread).0 > 1 {
            // One may be that of a thread that has ended and whose identifier this one has got. Nobody else can enter and free
            // it while the host tries again.
            threads::free_ended();
            return Progress::NEW;
        }
        PyThreadState_SetAsyncExc(thread as c_long, ptr::null_mut());
        Progress::DONE
    }
}

/// Leaves the exception for the thread if that is at the right moment.
///
/// # Safety
///
/// The caller is attached, on another thread. That one lives until it has got the GIL. `class` lives as long as the
/// interpreter.
unsafe fn leave(thread: u64, class: *mut PyObject) -> Progress {
    // SAFETY: attached, by contract. No code between the look and the exception releases the GIL: a collection of garbage
    // would, by finalizers.
    unsafe {
        let (count, state) = states_of(thread);
        match count {
            0 => return Progress::WAITS,
            1 => {}
            _ => return Progress::NEW,
        }
        let collects = PyGC_Disable();
        let moment = moment(state);
        if collects != 0 {
            PyGC_Enable();
        }
        let request = request(thread, class);
        if !Describing::is_one(thread) && request.may(moment) {
            PyThreadState_SetAsyncExc(thread as c_long, class);
            remove_request(thread);
            return Progress::DONE;
        }
        let used = used(thread);
        if std::mem::replace(&mut request.used, used) != used {
            request.ran = Some(Instant::now());
        }
        request.progress()
    }
}

/// For how long a thread has run on a processor.
///
/// # Safety
///
/// The thread lives.
unsafe fn used(thread: u64) -> Duration {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the places are valid, and the identifier of a thread that lives is that of pthread_self(3).
    unsafe {
        if libc::pthread_getcpuclockid(thread, &mut clock) != 0 {
            return Duration::ZERO;
        }
        libc::clock_gettime(clock, &mut time);
    }
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Whether a call of [`look`] waits for a thread.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Has the thread look where it is. It may be that another thread does so instead, and finds nothing for itself.
///
/// # Safety
///
/// As [`leave`].
unsafe fn ask(thread: u64, class: *mut PyObject, progress: Progress) -> Progress {
    // SAFETY: attached, by contract.
    unsafe {
        if request_of(thread).is_none() && progress != Progress::NEW {
            return Progress::DONE;
        }
        let request = request(thread, class);
        let progress = request.progress();
        if !ASKED.swap(true, Ordering::Relaxed)
            && _PyEval_AddPendingCall(PyInterpreterState_Get(), look, ptr::null_mut(), 0) != 0
        {
            ASKED.store(false, Ordering::Relaxed);
        }
        progress
    }
}

/// The reaction of a thread that was asked: raises its exception, or goes on.
unsafe extern "C" fn look(_argument: *mut c_void) -> c_int {
    ASKED.store(false, Ordering::Relaxed);
    // SAFETY: CPython calls this on a thread that is attached, without an exception. The moment runs no Python code.
    unsafe {
        let thread = PyThread_get_thread_ident();
        if request_of(thread).is_none() {
            return 0;
        }
        let moment = match moment(PyThreadState_Get()) {
            // It is here that CPython looks.
            Moment::Wrong(Wrong::Inexact) => Moment::Right,
            moment => moment,
        };
        let Some(request) = request_of(thread) else { return 0 };
        if Describing::is_one(thread) || !request.may(moment) {
            request.ran = Some(Instant::now());
            return 0;
        }
        let class = request.class;
        remove_request(thread);
        PyErr_SetNone(class);
        -1
    }
}

/// The classes that were looked up, by their reasons. They are kept for as long as the interpreter lives.
static CLASSES: UnderGil<Vec<(Interrupt, Ref)>> = UnderGil::new(Vec::new());

/// # Safety
///
/// The caller is attached.
unsafe fn kept_class(reason: Interrupt) -> Option<*mut PyObject> {
    // SAFETY: attached, by contract.
    let classes = unsafe { &*CLASSES.as_ptr() };
    classes.iter().find(|(one, _)| *one == reason).map(|(_, class)| class.as_ptr())
}

/// Looks a class up and keeps it.
///
/// # Safety
///
/// The caller is attached.
unsafe fn keep_class(reason: Interrupt) -> Outcome<()> {
    // SAFETY: attached, by contract.
    unsafe {
        let class = class(reason)?;
        (*CLASSES.as_ptr()).push((reason, class));
    }
    Ok(())
}

/// While it lives, this thread describes an exception to the host, by Python code: an interrupt would get into that.
/// Exceptions left for the thread and not raised are taken back.
pub(crate) struct Describing {
    thread: u64,
    /// The exception may be a MemoryError.
    _lifted: Lifted,
}

/// The threads that describe an exception, and since when. Code that runs for longer is that of the exception's own class,
/// and is interrupted.
static DESCRIBERS: UnderGil<Vec<(u64, Instant)>> = UnderGil::new(Vec::new());

impl Describing {
    const LONG: Duration = Duration::from_secs(1);

    /// # Safety
    ///
    /// The thread is attached, now and when this is dropped.
    pub(crate) unsafe fn begin() -> Self {
        // SAFETY: attached, by contract.
        unsafe {
            let thread = PyThread_get_thread_ident();
            if USED.load(Ordering::Relaxed) && !looks_itself() && states_of(thread).0 <= 1 {
                PyThreadState_SetAsyncExc(thread as c_long, ptr::null_mut());
            }
            (*DESCRIBERS.as_ptr()).push((thread, Instant::now()));
            Self { thread, _lifted: Lifted::begin() }
        }
    }

    /// # Safety
    ///
    /// The caller is attached.
    unsafe fn is_one(thread: u64) -> bool {
        // SAFETY: attached, by contract, and nobody else is meanwhile.
        let describers = unsafe { &*DESCRIBERS.as_ptr() };
        describers.iter().any(|(one, since)| *one == thread && since.elapsed() < Self::LONG)
    }
}

impl Drop for Describing {
    fn drop(&mut self) {
        // SAFETY: attached, by the contract of `begin`, and nobody else is meanwhile.
        let describers = unsafe { &mut *DESCRIBERS.as_ptr() };
        if let Some(place) = describers.iter().rposition(|(one, _)| *one == self.thread) {
            describers.remove(place);
        }
    }
}

/// How many states carry the identifier of a thread, and one of them. Up to 3.11 the state of a thread that is about to begin
/// carries that of the thread that starts it (`new_threadstate` in Python/pystate.c), and `PyThreadState_SetAsyncExc` takes the
/// first that it finds.
///
/// # Safety
///
/// The thread is attached.
unsafe fn states_of(thread: u64) -> (usize, *mut PyThreadState) {
    // SAFETY: attached, so no state of the list is deleted. A state that another thread adds stands before all others.
    unsafe {
        let own = PyThreadState_Get();
        let (mut count, mut found) = (0, ptr::null_mut());
        let Some(place) = place_of_identifier(own) else { return (0, found) };
        let mut state = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own));
        while !state.is_null() {
            if state.cast::<u64>().add(place).read_volatile() == thread {
                (count, found) = (count + 1, state);
            }
            state = PyThreadState_Next(state);
        }
        (count, found)
    }
}

/// Where a state has its thread's identifier, in words. Each release has another place for it.
///
/// # Safety
///
/// `own` is the state of this thread, which is attached.
unsafe fn place_of_identifier(own: *mut PyThreadState) -> Option<usize> {
    /// Words of a state in which it is looked for. The smallest state, that of 3.10, has more.
    const WORDS: usize = 32;
    // SAFETY: the words lie in the state.
    unsafe {
        let thread = PyThread_get_thread_ident();
        (0..WORDS).find(|&word| own.cast::<u64>().add(word).read_volatile() == thread)
    }
}

/// The exception class for `reason`.
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn class(reason: Interrupt) -> Outcome<Ref> {
    let Some(name) = reason.class() else {
        let expected = "a reason for an interrupt";
        return Err(Fault::Conversion { expected, reason: format!("{} is none", reason.0) });
    };
    // SAFETY: attached, and the module is alive during the look-up.
    unsafe {
        let (module, name) =
            (Ref::text(Interrupt::MODULE.as_bytes())?, Ref::text(name.as_bytes())?);
        let module = Ref::owned(PyImport_Import(module.as_ptr()))?;
        safe_points::learn(&module)?;
        Ref::owned(PyObject_GetAttr(module.as_ptr(), name.as_ptr()))
    }
}

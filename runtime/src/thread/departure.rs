//! Threads of Python whose interpreter ends: how they leave.
//!
//! CPython cuts daemon threads off. Up to 3.13 a thread that wants the GIL of a Python that ends is ended by `pthread_exit`
//! (`PyThread_exit_thread`, Python/thread_pthread.h), which unwinds its stack by force: a frame of C++ that lets no
//! exception out, or one of Rust, ends the process then. Since 3.14 such a thread hangs (`PyThread_hang_thread`). Here it is
//! ended if nothing but frames of CPython itself is unwound, which are plain C. Otherwise it is parked for ever, and its
//! interpreter stays as it is: the thread keeps the domain.
//!
//! A thread that waits for one of Python's locks never comes to want the GIL. So waits are noted, and woken after the end.
//!
//! Locks of a thread that was cut off stay locked. If the end wants such a lock of a stream, CPython ends the process
//! (`_enter_buffered_busy`, Modules/_io/bufferedio.c). No other thread runs Python code by then, so the thread that ends
//! the interpreter takes the lock all the same.

use crate::thread::signals::Mask;
use crate::{Error, Result};
use hydrozoa_loader::walk::Passes;
use hydrozoa_loader::{
    Domain, Interposition, LeafLock, Library, is_a_replicas_thread, may_end_by_force, thread_number,
};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ops::Range;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

/// How threads leave one interpreter. It lives as long as the process, like the code that calls it.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    libpython: OnceLock<Libpython>,
    /// The thread that ends the interpreter; 0 before.
    ender: AtomicI32,
    stage: AtomicU8,
}

/// How long the end of an interpreter waits for threads that it has woken, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(200);

/// Threads may wait.
const OPEN: u8 = 0;
/// The interpreter has ended, and those that wait are woken.
const WAKING: u8 = 1;
/// All have been woken.
const OVER: u8 = 2;
/// The process exits while the interpreter lives.
const EXIT: u8 = 3;

/// Functions of the interpreter's libpython.
#[derive(Debug)]
struct Libpython {
    code: Range<usize>,
    acquire_lock: usize,
    is_initialized: IsInitialized,
    ensure: Ensure,
    new_state: NewState,
}

type IsInitialized = unsafe extern "C" fn() -> c_int;
type Ensure = unsafe extern "C-unwind" fn() -> c_int;
type NewState = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// The semaphore that a thread waits for, and whose it is. Null between waits.
#[derive(Debug, Default)]
struct Wait {
    semaphore: AtomicPtr<libc::sem_t>,
    of: AtomicPtr<Departures>,
}

/// Those of all threads that have waited.
static WAITS: LeafLock<Vec<Arc<Wait>>> = LeafLock::new(Vec::new());

thread_local! {
    static OWN: Own = Own::register();
    /// Whether the thread waits in the C library.
    static WAITS_NOW: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread's, listed as long as the thread lives.
struct Own(Arc<Wait>);

impl Own {
    fn register() -> Self {
        let wait = Arc::<Wait>::default();
        WAITS.with(|waits| waits.push(wait.clone()));
        Self(wait)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        WAITS.with(|waits| {
            let place = waits.iter().position(|wait| Arc::ptr_eq(wait, &self.0));
            place.map(|place| waits.swap_remove(place))
        });
    }
}

impl Wait {
    /// The semaphore of `departures` that is waited for, or null.
    fn of(&self, departures: &Departures) -> *mut libc::sem_t {
        let semaphore = self.semaphore.load(Ordering::SeqCst);
        let is_theirs = ptr::eq(self.of.load(Ordering::SeqCst), departures);
        // Otherwise the thread waits for another one by now, maybe of another interpreter.
        let is_same = self.semaphore.load(Ordering::SeqCst) == semaphore;
        if is_theirs && is_same { semaphore } else { ptr::null_mut() }
    }
}

impl Departures {
    pub(crate) fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// The functions that answer for the C library in libpython, which has this soname, and for libpython in the domain.
    pub(crate) fn interpositions(&'static self) -> ([Answer; 5], [Answer; 2]) {
        let context = ptr::from_ref(self).expose_provenance();
        // SAFETY: pthread_exit(3) and sem_wait(3) take a pointer, sem_timedwait(3) two, sem_clockwait a number and two
        // pointers, pause(2) nothing. The functions take these, the address of departures that are never freed, and the caller's.
        let answer = |target, count| unsafe { Interposition::with_caller(target, count, context) };
        // SAFETY: `PyGILState_Ensure` takes nothing and `PyThreadState_New` a pointer; the rest as above.
        let check = |target, count| unsafe { Interposition::with_context(target, count, context) };
        let of_the_c_library = [
            ("pause", answer(pause as *const c_void, 0)),
            ("pthread_exit", answer(pthread_exit as *const c_void, 1)),
            ("sem_wait", answer(sem_wait as *const c_void, 1)),
            ("sem_timedwait", answer(sem_timedwait as *const c_void, 2)),
            ("sem_clockwait", answer(sem_clockwait as *const c_void, 3)),
        ];
        let of_libpython = [
            ("PyGILState_Ensure", check(ensure as *const c_void, 0)),
            ("PyThreadState_New", check(new_state as *const c_void, 1)),
        ];
        (of_the_c_library, of_libpython)
    }

    /// Notes the interpreter's libpython.
    ///
    /// # Errors
    ///
    /// It lacks a function that every CPython has.
    pub(crate) fn runs(&self, domain: &Domain, libpython: &Library) -> Result<()> {
        let base = libpython.base();
        let size = domain.replicas().iter().find(|one| one.base == base).map_or(0, |one| one.size);
        let symbol = |name| libpython.symbol(name).map_err(Error::from);
        // SAFETY: the signatures of Include/pylifecycle.h and Include/pystate.h, the same since 3.2.
        let functions = unsafe {
            Libpython {
                code: base..base + size,
                acquire_lock: symbol("PyThread_acquire_lock_timed")?.addr(),
                is_initialized: transmute::<*const c_void, IsInitialized>(symbol(
                    "Py_IsInitialized",
                )?),
                ensure: transmute::<*const c_void, Ensure>(symbol("PyGILState_Ensure")?),
                new_state: transmute::<*const c_void, NewState>(symbol("PyThreadState_New")?),
            }
        };
        let _ = self.libpython.set(functions);
        Ok(())
    }

    /// The calling thread begins to end the interpreter.
    pub(crate) fn begin(&self) {
        self.ender.store(thread_number(), Ordering::Release);
    }

    /// The interpreter is finalized: its threads that wait for locks leave. Waits for them, at most for [`PATIENCE`].
    pub(crate) fn end(&self) {
        self.stage.store(WAKING, Ordering::SeqCst);
        // All before the first is woken: a post for one of two that wait for the same semaphore may wake the other.
        let woken: Vec<_> = WAITS.with(|waits| {
            let waits = waits.iter().map(|wait| (wait.clone(), wait.of(self)));
            waits.filter(|(_, semaphore)| !semaphore.is_null()).collect()
        });
        for (_, semaphore) in &woken {
            // SAFETY: the thread that waits for it does not go on before all have been woken (`depart`), so its stack is
            // there. Other memory of the interpreter is there as long as its threads.
            unsafe { libc::sem_post(*semaphore) };
        }
        self.stage.store(OVER, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        let is_there = |wait: &Arc<Wait>| {
            Arc::strong_count(wait) > 1 && !wait.of.load(Ordering::SeqCst).is_null()
        };
        while woken.iter().any(|(wait, _)| is_there(wait)) && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether other threads run code of the interpreter, or may do so: one that ends it, threads of Python that wait for
    /// no lock, threads that have not left it after its end. The process exits: from now on those that wait stay where
    /// they are.
    pub(crate) fn are_busy(&self, domain: &Domain) -> bool {
        let stage = self.stage.compare_exchange(OPEN, EXIT, Ordering::SeqCst, Ordering::SeqCst);
        let ender = self.ender.load(Ordering::Acquire);
        let is_own = ender == thread_number();
        if is_own || stage == Err(OVER) {
            return !is_own && domain.has_threads();
        }
        let threads = self.libpython.get().map_or(0, |found| domain.threads_of(&found.code));
        let waiting =
            WAITS.with(|waits| waits.iter().filter(|wait| !wait.of(self).is_null()).count());
        ender != 0 || threads > waiting
    }

    /// Whether Python ends, or has ended. It is so for other threads than the one that ends it (`Py_FinalizeEx` in
    /// Python/pylifecycle.c).
    fn is_ending(&self) -> bool {
        // SAFETY: reads a variable of libpython.
        self.libpython.get().is_some_and(|libpython| unsafe { (libpython.is_initialized)() } == 0)
    }

    /// Waits for a semaphore by `wait`, whose result and errno it passes on.
    fn wait(&self, semaphore: *mut libc::sem_t, caller: usize, wait: impl Fn() -> c_int) -> c_int {
        let stage = || self.stage.load(Ordering::SeqCst);
        let noted = OWN.try_with(|own| {
            own.0.of.store(ptr::from_ref(self).cast_mut(), Ordering::SeqCst);
            own.0.semaphore.store(semaphore, Ordering::SeqCst);
            // The end looks for those that wait after it has closed.
            WAITS_NOW.set(true);
            let status = if [OPEN, EXIT].contains(&stage()) { wait() } else { 0 };
            WAITS_NOW.set(false);
            if stage() == EXIT && is_a_replicas_thread() {
                park();
            }
            own.0.semaphore.store(ptr::null_mut(), Ordering::SeqCst);
            status
        });
        // The thread's own destructors run already.
        let status = noted.unwrap_or_else(|_| wait());
        match stage() {
            OPEN | EXIT => status,
            _ => self.depart(ptr::null_mut(), caller),
        }
    }

    /// Whether the thread that ends the interpreter has waited in vain for a lock of CPython's, at `caller`, that another thread
    /// had when it was cut off. Since 3.13 there are other waits for semaphores, which end otherwise (Python/parking_lot.c).
    fn is_abandoned(&self, caller: usize) -> bool {
        unsafe extern "C" {
            fn _Unwind_FindEnclosingFunction(address: usize) -> usize;
        }
        // SAFETY: none has a precondition.
        let (error, own) = unsafe { (*libc::__errno_location(), thread_number()) };
        error == libc::ETIMEDOUT
            && own == self.ender.load(Ordering::Acquire)
            && self.is_ending()
            && {
                // SAFETY: the address is that of code that waits for the result.
                let function = unsafe { _Unwind_FindEnclosingFunction(caller - 1) };
                self.libpython.get().is_some_and(|libpython| libpython.acquire_lock == function)
            }
    }

    /// Ends the calling thread where a call returns to `caller`, if that unwinds nothing but CPython. Otherwise it is parked.
    fn depart(&self, value: *mut c_void, caller: usize) -> ! {
        if !may_end_by_force(caller, is_pythons_own) {
            let _ = OWN.try_with(|own| own.0.of.store(ptr::null_mut(), Ordering::SeqCst));
            park();
        }
        // A command ends with its process.
        if self.ender.load(Ordering::Acquire) != 0 {
            // Up to its end CPython may detach the thread, which must not be gone then (`detach_thread`, 3.13).
            loop {
                match self.stage.load(Ordering::SeqCst) {
                    OVER => break,
                    EXIT => park(),
                    _ => std::thread::sleep(PAUSE),
                }
            }
            // Since 3.13 threads begin joinable, and nobody is left who would join it. Others are detached already, which
            // is an error without an effect.
            // SAFETY: the calling thread.
            unsafe { libc::pthread_detach(libc::pthread_self()) };
        }
        // SAFETY: all frames may be unwound, and a thread that code of the domain has created may end so.
        unsafe { libc::pthread_exit(value) }
    }

    /// An extension module asks for a thread's state. One that Python would cut off is parked: what Python finds states
    /// by is gone after its end (`_PyGILState_Fini`, Python/pystate.c).
    pub(crate) fn check(&self) {
        // A thread of the application may run destructors of the domain.
        if self.is_ending() && is_a_replicas_thread() && {
            self.ender.load(Ordering::Acquire) != thread_number()
        } {
            park();
        }
    }
}

/// The functions below, and when a thread in them holds nothing of the process: for those who send threads out of an
/// interpreter that has crashed.
pub(crate) fn functions() -> [(usize, Passes); 5] {
    let waits = Passes::While(|| WAITS_NOW.get());
    [
        (sem_wait as *const () as usize, waits),
        (sem_timedwait as *const () as usize, waits),
        (sem_clockwait as *const () as usize, waits),
        (ensure as *const () as usize, Passes::CallingBack),
        (new_state as *const () as usize, Passes::CallingBack),
    ]
}

/// The calling thread has left such a function without a return.
pub(crate) fn forget_wait() {
    WAITS_NOW.set(false);
}

/// A symbol, and what answers for it.
pub(crate) type Answer = (&'static str, Interposition);

/// Whether a file is CPython's own, or the payload: plain C, or functions that leave nothing behind where they let a thread
/// end.
fn is_pythons_own(file: &Path) -> bool {
    let name = file.file_name().map_or("".into(), |name| name.to_string_lossy());
    let folder = file.parent().and_then(Path::file_name);
    name.starts_with("libpython3.")
        || name.starts_with("hydrozoa-payload-3.")
        || folder.is_some_and(|folder| folder == "lib-dynload")
}

/// The calling thread sleeps for ever, and takes no signal that another thread could take.
fn park() -> ! {
    Mask::block_all();
    loop {
        // SAFETY: no arguments.
        unsafe { libc::pause() };
    }
}

/// # Safety
///
/// The context of one of the interpositions.
unsafe fn departures(context: usize) -> &'static Departures {
    // SAFETY: by contract; departures are never freed.
    unsafe { &*ptr::with_exposed_provenance::<Departures>(context) }
}

/// `pthread_exit(3)`.
unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void, context: usize, caller: usize) -> ! {
    // SAFETY: an interposition.
    let departures = unsafe { departures(context) };
    if departures.is_ending() {
        departures.depart(value, caller)
    }
    // SAFETY: the caller's promise.
    unsafe { libc::pthread_exit(value) }
}

/// `sem_wait(3)`.
unsafe extern "C-unwind" fn sem_wait(
    semaphore: *mut libc::sem_t,
    context: usize,
    caller: usize,
) -> c_int {
    // SAFETY: an interposition, and the caller's promise.
    unsafe {
        if libc::sem_trywait(semaphore) == 0 {
            return 0;
        }
        departures(context).wait(semaphore, caller, || libc::sem_wait(semaphore))
    }
}

/// `sem_timedwait(3)`.
unsafe extern "C-unwind" fn sem_timedwait(
    semaphore: *mut libc::sem_t,
    until: *const libc::timespec,
    context: usize,
    caller: usize,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        if libc::sem_trywait(semaphore) == 0 {
            return 0;
        }
        timed(context, semaphore, caller, || libc::sem_timedwait(semaphore, until))
    }
}

/// `sem_clockwait`, as `sem_timedwait` by another clock.
unsafe extern "C-unwind" fn sem_clockwait(
    semaphore: *mut libc::sem_t,
    clock: libc::clockid_t,
    until: *const libc::timespec,
    context: usize,
    caller: usize,
) -> c_int {
    type Wait = unsafe extern "C" fn(
        semaphore: *mut libc::sem_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> c_int;
    /// glibc's, since 2.30. A libpython calls it that was built with such a glibc.
    static WAIT: LazyLock<Option<Wait>> = LazyLock::new(|| {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"sem_clockwait".as_ptr()) };
        // SAFETY: glibc's function of this name has this type.
        (!found.is_null()).then(|| unsafe { transmute::<*mut c_void, Wait>(found) })
    });
    // SAFETY: as above.
    unsafe {
        if libc::sem_trywait(semaphore) == 0 {
            return 0;
        }
        let Some(wait) = *WAIT else {
            *libc::__errno_location() = libc::ENOSYS;
            return -1;
        };
        timed(context, semaphore, caller, || wait(semaphore, clock, until))
    }
}

/// # Safety
///
/// As for [`departures`].
unsafe fn timed(
    context: usize,
    semaphore: *mut libc::sem_t,
    caller: usize,
    wait: impl Fn() -> c_int,
) -> c_int {
    // SAFETY: by contract.
    let departures = unsafe { departures(context) };
    let status = departures.wait(semaphore, caller, wait);
    if status != 0 && departures.is_abandoned(caller) { 0 } else { status }
}

/// `pause(2)`, in which a thread hangs that Python has cut off.
unsafe extern "C-unwind" fn pause(context: usize, caller: usize) -> c_int {
    // SAFETY: an interposition.
    let departures = unsafe { departures(context) };
    if departures.is_ending() {
        departures.depart(ptr::null_mut(), caller)
    }
    // SAFETY: no arguments.
    unsafe { libc::pause() }
}

/// `PyGILState_Ensure()`.
unsafe extern "C-unwind" fn ensure(context: usize) -> c_int {
    // SAFETY: an interposition. Code that calls it was loaded after libpython was noted.
    unsafe {
        let departures = departures(context);
        departures.check();
        departures.libpython.get().map_or(0, |libpython| (libpython.ensure)())
    }
}

/// `PyThreadState_New(PyInterpreterState*)`.
unsafe extern "C-unwind" fn new_state(interpreter: *mut c_void, context: usize) -> *mut c_void {
    // SAFETY: as above.
    unsafe {
        let departures = departures(context);
        departures.check();
        let libpython = departures.libpython.get();
        libpython.map_or(ptr::null_mut(), |libpython| (libpython.new_state)(interpreter))
    }
}

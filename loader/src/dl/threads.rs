//! `pthread_create`: a thread begins in the domain of the code that creates it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::arch::call_guarded;
use crate::current;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::locale;
use crate::sys::thread::{self, Start};
use crate::sys::{frames, guard};
use crate::tls::Pattern;
use crate::visible::publish;
use crate::walk::note_routine;

thread_local! {
    /// In a thread that code of a replica has created: an address in the frame of [`begin`].
    static BEGIN: Cell<usize> = const { Cell::new(0) };
}

/// Whether code of a replica has created the calling thread.
pub fn is_a_replicas_thread() -> bool {
    BEGIN.get() != 0
}

/// Whether the calling thread may be ended by force (pthread_exit(3)) where a call returns to `caller`. It may if code
/// of a replica has created it, and if all frames from there to its begin are code of replicas whose files `is_plain`
/// accepts, and hold nothing that an unwinder would run.
///
/// Forced unwinding through a C++ frame that lets no exception out ends the process (`std::terminate`), and so it
/// does through most Rust frames. Other threads may still be working on data in other frames.
pub fn may_end_by_force(caller: usize, is_plain: impl Fn(&Path) -> bool) -> bool {
    let begin = BEGIN.get();
    let (mut is_reached, mut is_guard_passed, mut may) = (false, false, false);
    let mut visit = |frame: frames::Frame| {
        is_reached |= frame.address == caller;
        if !is_reached {
            return true;
        }
        // The C library's, which called `begin`.
        if frame.stack > begin {
            may = is_guard_passed;
            return false;
        }
        let replica = publish::find(frame.address.wrapping_sub(1));
        if is_guard_passed || frame.function == call_guarded as *const () as usize {
            is_guard_passed = true;
            // Ours down to `begin`, unless it is the guarded call of a constructor.
            return replica.is_none();
        }
        !frame.has_handlers && replica.is_some_and(|replica| is_plain(&replica.image.path))
    };
    if begin != 0 {
        frames::walk(&mut visit);
    }
    may
}

/// Each thread that code of a replica has created calls this first, in its domain.
static AT_BIRTH: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// From now on, each thread that code of a replica creates calls `action` first, in the domain of the code. One action is
/// kept.
pub fn at_birth(action: fn()) {
    AT_BIRTH.store(action as *mut c_void, Ordering::Release);
}

fn call_at_birth() {
    let action = AT_BIRTH.load(Ordering::Acquire);
    if !action.is_null() {
        // SAFETY: stored by `at_birth`.
        unsafe { std::mem::transmute::<*mut c_void, fn()>(action)() };
    }
}

/// Calls the start routines of threads, for those who ask it to.
static AROUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// A function that calls the start routine of a thread which code of a domain creates, by `run(start, argument)`, and returns its
/// result.
pub type Around = fn(domain: DomainId, run: Run, start: usize, argument: usize) -> usize;

/// Calls a start routine.
pub type Run = unsafe extern "C-unwind" fn(start: usize, argument: usize) -> usize;

/// From now on, `around` calls the start routine of each thread that code of a domain creates. One function is kept.
pub fn around_threads(around: Around) {
    AROUND.store(around as *mut c_void, Ordering::Release);
}

/// Calls the start routine of the calling thread.
///
/// # Safety
/// The creator gave the routine and its argument for this thread.
pub(super) unsafe extern "C-unwind" fn run(start: usize, argument: usize) -> usize {
    note_routine(start);
    // SAFETY: by contract.
    unsafe { guard::call_or_end("the start routine of a thread", start, [argument, 0, 0]) }
}

struct Birth {
    start: Start,
    argument: *mut c_void,
    /// The domain whose code the thread runs; `None` for code outside all domains.
    domain: Option<DomainId>,
    /// The domain that the thread belongs to, where it is noted.
    creator: Option<Domain>,
    pattern: Pattern,
}

/// `pthread_create(thread, attributes, start, argument)`.
///
/// # Safety
/// As pthread_create(3).
pub(super) unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    context: usize,
) -> c_int {
    let domain = DomainId(context as u32);
    // SAFETY: the caller's promise.
    unsafe { create(thread, attributes, start, argument, Some(domain), domain::by_id(domain)) }
}

/// Creates a thread that runs code of `domain` and belongs to `creator`.
///
/// # Safety
/// As pthread_create(3).
unsafe fn create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    domain: Option<DomainId>,
    creator: Option<Domain>,
) -> c_int {
    if let Some(creator) = &creator {
        creator.0.belongings.begin_thread();
    }
    let birth = Box::new(Birth { start, argument, domain, creator, pattern: Pattern::now() });
    let birth = Box::into_raw(birth);
    // SAFETY: the caller's promise; `begin` takes the box over.
    let status = unsafe { thread::create(thread, attributes, begin, birth.cast()) };
    if status != 0 {
        // SAFETY: no thread was created that could have taken it over.
        let birth = unsafe { Box::from_raw(birth) };
        birth.creator.iter().for_each(|creator| creator.0.belongings.no_thread());
    }
    status
}

extern "C-unwind" fn begin(birth: *mut c_void) -> *mut c_void {
    // SAFETY: made by `create` above for this thread alone.
    let Birth { start, argument, domain, creator, pattern } =
        *unsafe { Box::from_raw(birth.cast::<Birth>()) };
    pattern.refresh();
    let is_one_of_many = creator.as_ref().is_some_and(Domain::is_one_of_many);
    if let Some(creator) = creator {
        creator.0.belongings.note_thread(start as usize);
    }
    // Not a guard: the start routine may end by pthread_exit, which unwinds by force.
    // SAFETY: the thread runs the domain's code from its begin to its end.
    unsafe { current::replace(domain) };
    if let Some(domain) = domain.filter(|_| is_one_of_many) {
        locale::begin_thread(domain);
    }
    call_at_birth();
    let (start, argument) = (start as usize, argument.expose_provenance());
    BEGIN.set((&raw const argument).addr());
    let around = AROUND.load(Ordering::Acquire);
    let result = match domain.filter(|_| !around.is_null()) {
        Some(domain) => {
            // SAFETY: stored by `around_threads`.
            let around = unsafe { std::mem::transmute::<*mut c_void, Around>(around) };
            around(domain, run, start, argument)
        }
        // SAFETY: the creator gave the routine and its argument for this thread.
        None => unsafe { run(start, argument) },
    };
    ptr::with_exposed_provenance_mut(result)
}

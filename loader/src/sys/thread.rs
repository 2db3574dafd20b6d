//! Threads: keys with destructors, and creation.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::Duration;

/// A start routine as `pthread_create` takes it.
pub(crate) type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Makes a key whose `destructor` runs at the exit of each thread that has set it.
pub(crate) fn key(destructor: extern "C" fn(*mut c_void)) -> io::Result<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: `key` is a valid place to write to, and the destructor is a function of this crate.
    let status = unsafe {
        libc::pthread_key_create(
            &mut key,
            Some(std::mem::transmute::<
                extern "C" fn(*mut c_void),
                unsafe extern "C" fn(*mut c_void),
            >(destructor)),
        )
    };
    if status == 0 { Ok(key) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Sets the calling thread's value of `key`.
pub(crate) fn set(key: libc::pthread_key_t, value: *mut c_void) {
    // SAFETY: `key` came from [`key`] and is never deleted. The value is only a pointer to glibc.
    unsafe { libc::pthread_setspecific(key, value) };
}

/// The calling thread's value of one of glibc's keys; null for any other number.
pub(crate) fn get(key: libc::pthread_key_t) -> *mut c_void {
    // SAFETY: glibc checks the number.
    unsafe { libc::pthread_getspecific(key) }
}

/// Sets the calling thread's value of a key of glibc's, or returns the number of an error.
pub(crate) fn try_set(key: libc::pthread_key_t, value: *mut c_void) -> i32 {
    // SAFETY: glibc checks the number. The value is only a pointer to it.
    unsafe { libc::pthread_setspecific(key, value) }
}

/// `pthread_key_delete(key)`. The key's destructor is not called any more.
pub(crate) fn delete(key: libc::pthread_key_t) -> i32 {
    // SAFETY: an invalid key is an error, which changes nothing.
    unsafe { libc::pthread_key_delete(key) }
}

/// Lets the calling thread sleep.
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// The kernel's number of the calling thread, as gettid(2) gives it. glibc has no function for it before 2.30.
///
/// Async-signal-safe.
pub fn number() -> libc::pid_t {
    // SAFETY: no arguments.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    // The kernel's numbers are of this type.
    number as libc::pid_t
}

/// The calling thread's stack. glibc keeps the thread's static TLS at its end.
pub(crate) fn stack() -> Option<Range<usize>> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attributes are initialized by the first call, read then, and destroyed.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut attributes = attributes.assume_init();
        let (mut start, mut size) = (std::ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut size) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then(|| start.addr()..start.addr() + size)
    }
}

/// Whether the process has a thread with this number.
pub(crate) fn exists(number: libc::pid_t) -> bool {
    // SAFETY: no arguments. Signal 0 is not sent: the call asks whether the thread exists (kill(2)).
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == 0 }
}

/// `pthread_atfork(before, parent, child)`.
pub(crate) fn at_fork(
    before: extern "C" fn(),
    parent: extern "C" fn(),
    child: extern "C" fn(),
) -> io::Result<()> {
    // SAFETY: the handlers are functions of this crate that need no argument.
    let status = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// `pthread_create`.
///
/// # Safety
/// `thread` and `attributes` are as `pthread_create(3)` requires, and `argument` is as `start`
/// expects.
pub(crate) unsafe fn create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> i32 {
    // SAFETY: passed on from the caller. The type that glibc takes does not say whether the routine unwinds.
    unsafe {
        let start = std::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(start);
        libc::pthread_create(thread, attributes, start, argument)
    }
}

/// The result of `ask` on a thread of its own, which has ended then. The thread is made without
/// `std::thread`, which ends the process if the kernel refuses a new thread the stack for its signals.
pub(crate) fn elsewhere<F: FnOnce() -> isize + Send>(ask: F) -> io::Result<isize> {
    struct Question<F> {
        ask: Option<F>,
        answer: isize,
    }
    extern "C-unwind" fn answer<F: FnOnce() -> isize + Send>(question: *mut c_void) -> *mut c_void {
        // SAFETY: the question that the thread was made for; its maker waits.
        let question = unsafe { &mut *question.cast::<Question<F>>() };
        question.answer = question.ask.take().map_or(0, |ask| ask());
        std::ptr::null_mut()
    }
    let mut question = Question { ask: Some(ask), answer: 0 };
    let mut thread = 0;
    // SAFETY: the thread is waited for, so that the question outlives it.
    let status = unsafe {
        let argument = (&raw mut question).cast();
        match create(&mut thread, std::ptr::null(), answer::<F>, argument) {
            0 => libc::pthread_join(thread, std::ptr::null_mut()),
            refused => refused,
        }
    };
    if status == 0 { Ok(question.answer) } else { Err(io::Error::from_raw_os_error(status)) }
}

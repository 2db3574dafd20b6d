//! `wait` and its relatives: code of one program among several waits for that program's children.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::dl::Interposed;
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::sys::children;

/// The functions of <sys/wait.h>.
pub(super) fn uses(domain: DomainId) -> Vec<Interposed> {
    // SAFETY: the functions have the signatures of <sys/wait.h>, and then the context.
    let with = |target, arguments| unsafe {
        Interposition::with_context(target, arguments, domain.0 as usize)
    };
    let (any, one) = (with(wait as *const c_void, 1), with(waitpid as *const c_void, 3));
    vec![
        ("wait", any),
        ("__wait", any),
        ("waitpid", one),
        ("__waitpid", one),
        ("wait3", with(wait3 as *const c_void, 3)),
        ("wait4", with(wait4 as *const c_void, 4)),
        ("waitid", with(waitid as *const c_void, 4)),
    ]
}

/// `wait(status)`.
///
/// # Safety
/// As wait(2).
unsafe extern "C-unwind" fn wait(status: *mut c_int, context: usize) -> libc::pid_t {
    // SAFETY: the caller's promise.
    unsafe { wait4(-1, status, 0, ptr::null_mut(), context) }
}

/// `waitpid(child, status, options)`.
///
/// # Safety
/// As waitpid(2).
unsafe extern "C-unwind" fn waitpid(
    child: libc::pid_t,
    status: *mut c_int,
    options: c_int,
    context: usize,
) -> libc::pid_t {
    // SAFETY: the caller's promise.
    unsafe { wait4(child, status, options, ptr::null_mut(), context) }
}

/// `wait3(status, options, usage)`.
///
/// # Safety
/// As wait3(2).
unsafe extern "C-unwind" fn wait3(
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
    context: usize,
) -> libc::pid_t {
    // SAFETY: the caller's promise.
    unsafe { wait4(-1, status, options, usage, context) }
}

/// `wait4(child, status, options, usage)`.
///
/// # Safety
/// As wait4(2).
pub(super) unsafe extern "C-unwind" fn wait4(
    child: libc::pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
    context: usize,
) -> libc::pid_t {
    // SAFETY: the caller's promise.
    unsafe { children::wait_by_number(child, status, options, usage, DomainId(context as u32)) }
}

/// `waitid(kind, id, report, options)`.
///
/// # Safety
/// As waitid(2).
unsafe extern "C-unwind" fn waitid(
    kind: libc::idtype_t,
    id: libc::id_t,
    report: *mut libc::siginfo_t,
    options: c_int,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { waitid_with_usage(kind, id, report, options, ptr::null_mut(), context) }
}

/// `waitid(kind, id, report, options, usage)`, as the kernel has it.
///
/// # Safety
/// As waitid(2).
pub(super) unsafe fn waitid_with_usage(
    kind: libc::idtype_t,
    id: libc::id_t,
    report: *mut libc::siginfo_t,
    options: c_int,
    usage: *mut libc::rusage,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { children::wait_by_kind(kind, id, report, options, usage, DomainId(context as u32)) }
}

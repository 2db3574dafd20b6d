//! Keys of thread-specific data: which of them a domain's code has made.
//!
//! The destructor of a key is code of the domain. It must not be called after the domain's end, when a thread ends that
//! has a value.

use std::ffi::{c_int, c_void};

use crate::dl::Interposed;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::sys::thread;

/// The functions that make and delete keys.
pub(super) fn uses(domain: DomainId) -> Vec<Interposed> {
    // SAFETY: the functions have the signatures of <pthread.h>, and then the context.
    let with_domain = |target, arguments| unsafe {
        Interposition::with_context(target, arguments, domain.0 as usize)
    };
    vec![
        ("pthread_key_create", with_domain(create as *const c_void, 2)),
        ("pthread_key_delete", with_domain(delete as *const c_void, 1)),
    ]
}

fn of(context: usize) -> Option<Domain> {
    domain::by_id(DomainId(context as u32))
}

/// `pthread_key_create(key, destructor)`.
///
/// # Safety
/// As pthread_key_create(3).
unsafe extern "C" fn create(
    key: *mut libc::pthread_key_t,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    context: usize,
) -> c_int {
    // SAFETY: passed on.
    let status = unsafe { thread::create_key(key, destructor) };
    if status == 0
        && let Some(domain) = of(context)
    {
        // SAFETY: glibc has written it.
        domain.0.belongings.note_key(unsafe { *key });
    }
    status
}

/// `pthread_key_delete(key)`.
///
/// # Safety
/// As pthread_key_delete(3).
unsafe extern "C" fn delete(key: libc::pthread_key_t, context: usize) -> c_int {
    // Before it is deleted: another domain may get the number right after.
    if let Some(domain) = of(context) {
        domain.0.belongings.forget_key(key);
    }
    thread::delete(key)
}

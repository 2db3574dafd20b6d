//! Keys of thread-specific data: code of a domain among several has keys of the loader's ([`specific`]), not glibc's few.
//!
//! The domain notes which keys its code has made. The destructor of a key is code of the domain. It must not be called after
//! the domain's end, when a thread ends that has a value.

use std::ffi::{c_int, c_void};

use crate::dl::Interposed;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::tls::specific::{self, Destructor};

type Key = libc::pthread_key_t;

/// The functions of <pthread.h> and <threads.h> that have to do with keys.
const NAMES: [&str; 11] = [
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_getspecific",
    "pthread_setspecific",
    "__pthread_key_create",
    "__pthread_getspecific",
    "__pthread_setspecific",
    "tss_create",
    "tss_delete",
    "tss_get",
    "tss_set",
];

/// What references to them bind to.
pub(super) fn uses(domain: DomainId) -> Vec<Interposed> {
    // SAFETY: the functions have the signatures of the two headers; where it says so, the context stands behind the arguments.
    let plain = |target: *const c_void| unsafe { Interposition::function(target) };
    // SAFETY: as above.
    let with_domain = |target, arguments| unsafe {
        Interposition::with_context(target, arguments, domain.0 as usize)
    };
    NAMES
        .into_iter()
        .map(|name| {
            let interposition = match name {
                "tss_create" => with_domain(create_c11 as *const c_void, 2),
                "tss_set" => plain(set_c11 as *const c_void),
                "pthread_key_delete" | "tss_delete" => with_domain(delete as *const c_void, 1),
                _ if name.ends_with("create") => with_domain(create as *const c_void, 2),
                _ if name.ends_with("setspecific") => plain(set as *const c_void),
                _ => plain(get as *const c_void),
            };
            (name, interposition)
        })
        .collect()
}

fn of(context: usize) -> Option<Domain> {
    domain::by_id(DomainId(context as u32))
}

/// `pthread_key_create(key, destructor)`.
///
/// # Safety
/// As pthread_key_create(3).
unsafe extern "C" fn create(
    key: *mut Key,
    destructor: Option<Destructor>,
    context: usize,
) -> c_int {
    match specific::create(destructor) {
        Ok(made) => {
            if let Some(domain) = of(context) {
                domain.0.belongings.note_key(made);
            }
            // SAFETY: the caller gives a place for it.
            unsafe { key.write(made) };
            0
        }
        Err(number) => number,
    }
}

/// `pthread_key_delete(key)`, and `tss_delete`, whose result nobody has.
extern "C" fn delete(key: Key, context: usize) -> c_int {
    // Before it is deleted: another domain may get the number right after.
    if let Some(domain) = of(context) {
        domain.0.belongings.forget_key(key);
    }
    specific::delete(key)
}

/// `pthread_getspecific(key)`, `tss_get`.
extern "C" fn get(key: Key) -> *mut c_void {
    specific::get(key)
}

/// `pthread_setspecific(key, value)`.
extern "C" fn set(key: Key, value: *mut c_void) -> c_int {
    specific::set(key, value)
}

/// `tss_create(key, destructor)` of C11.
///
/// # Safety
/// As tss_create(3).
unsafe extern "C" fn create_c11(
    key: *mut Key,
    destructor: Option<Destructor>,
    context: usize,
) -> c_int {
    // SAFETY: passed on.
    c11(unsafe { create(key, destructor, context) })
}

/// `tss_set(key, value)` of C11.
extern "C" fn set_c11(key: Key, value: *mut c_void) -> c_int {
    c11(specific::set(key, value))
}

/// What <threads.h> of glibc has for a number of an error: `thrd_success`, `thrd_nomem`, `thrd_error`.
fn c11(number: c_int) -> c_int {
    match number {
        0 => 0,
        libc::ENOMEM => 3,
        _ => 2,
    }
}

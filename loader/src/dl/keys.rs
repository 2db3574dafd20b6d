//! Keys of thread-specific data: code of a domain among several has keys of the loader's ([`specific`]), not glibc's few.
//!
//! The domain notes which keys its code has made. The destructor of a key is code of the domain. It must not be called after
//! the domain's end, when a thread ends that has a value.

use std::ffi::{c_int, c_void};

use crate::dl::{Interposed, interposed};
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::sys::answering::answering;
use crate::tls::specific::{self, Destructor};

type Key = libc::pthread_key_t;

/// The functions of <pthread.h> and <threads.h> that use keys.
pub(super) fn uses(domain: DomainId) -> Vec<Interposed> {
    // SAFETY: the functions have the signatures of the two headers.
    let plain = |target: *const c_void| unsafe { Interposition::function(target) };
    let (get, set) = (plain(get as *const c_void), plain(set as *const c_void));
    let mut all = interposed(making(), domain.0 as usize);
    all.extend([
        ("pthread_getspecific", get),
        ("__pthread_getspecific", get),
        ("tss_get", get),
        ("pthread_setspecific", set),
        ("__pthread_setspecific", set),
        ("tss_set", plain(set_c11 as *const c_void)),
    ]);
    all
}

fn of(context: usize) -> Option<Domain> {
    domain::by_id(DomainId(context as u32))
}

answering! {
    fn making, context: usize;

    /// `pthread_key_create(key, destructor)`.
    "pthread_key_create", "__pthread_key_create" => extern "C" fn create(
        key: *mut Key, destructor: Option<Destructor>,
    ) -> c_int {
        match specific::create(destructor) {
            Ok(made) => {
                if let Some(domain) = of(context) {
                    domain.0.belongings.note_key(made);
                }
                key.write(made);
                0
            }
            Err(number) => number,
        }
    }

    /// `tss_create(key, destructor)` of C11.
    "tss_create" => extern "C" fn create_c11(
        key: *mut Key, destructor: Option<Destructor>,
    ) -> c_int {
        c11(create(key, destructor, context))
    }

    /// `pthread_key_delete(key)`, and `tss_delete`, which returns nothing.
    "pthread_key_delete", "tss_delete" => extern "C" fn delete(key: Key) -> c_int {
        // Before it is deleted: another domain may get the number right after.
        if let Some(domain) = of(context) {
            domain.0.belongings.forget_key(key);
        }
        specific::delete(key)
    }
}

/// `pthread_getspecific(key)`, `tss_get`.
extern "C" fn get(key: Key) -> *mut c_void {
    specific::get(key)
}

/// `pthread_setspecific(key, value)`.
extern "C" fn set(key: Key, value: *mut c_void) -> c_int {
    specific::set(key, value)
}

/// `tss_set(key, value)` of C11.
extern "C" fn set_c11(key: Key, value: *mut c_void) -> c_int {
    c11(specific::set(key, value))
}

/// An error number as glibc's <threads.h> expresses it: `thrd_success`, `thrd_nomem`, `thrd_error`.
fn c11(number: c_int) -> c_int {
    match number {
        0 => 0,
        libc::ENOMEM => 3,
        _ => 2,
    }
}

//! The initialization of C++'s static variables in functions, which a fork waits for.
//!
//! The first thread that reaches such a variable initializes it, and others wait for it (Itanium C++ ABI, 3.3.3,
//! "One-time Construction API"). The child of a fork would wait for ever for a thread that it does not have. In a
//! library that domains share, that is a thread of another domain, of which the forking program knows nothing.
//!
//! A fork waits up to a second for all such work. What the C library's `pthread_once` does begins again in the child
//! (glibc, nptl/pthread_once.c), and needs no care.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::sys::functions::functions;
use crate::sys::lock::awaited;
use crate::system::SystemObject;
use crate::visible::redirect::Everywhere;

/// The runtime library whose definitions these functions stand for. What is linked with one of its own waits by
/// that, and calls none of these.
const SONAME: &str = "libstdc++.so.6";
const SONAME_FOR_OPEN: &CStr = c"libstdc++.so.6";

/// The functions that begin and end an initialization.
pub(crate) fn everywhere() -> Vec<Everywhere> {
    let functions = [
        ("__cxa_guard_acquire", acquire as *const () as usize),
        ("__cxa_guard_release", release as *const () as usize),
        ("__cxa_guard_abort", abort as *const () as usize),
    ];
    functions
        .map(|(symbol, address)| Everywhere {
            symbol: symbol.into(),
            of: Some(SONAME),
            within: None,
            address,
        })
        .into()
}

/// Looks libstdc++'s own functions up if it is `definer`, to which code is about to be bound. Later a thread may have to
/// look them up where it must not wait for the system's loader.
pub(crate) fn find_in(definer: &SystemObject) {
    if definer.soname == SONAME {
        for original in [&ACQUIRE, &RELEASE, &ABORT] {
            original.address();
        }
    }
}

/// One of libstdc++'s own functions. No thread waits for another that looks it up.
struct Original {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

static ACQUIRE: Original = Original::new(c"__cxa_guard_acquire");
static RELEASE: Original = Original::new(c"__cxa_guard_release");
static ABORT: Original = Original::new(c"__cxa_guard_abort");

impl Original {
    const fn new(name: &'static CStr) -> Original {
        Original { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the texts are NUL-terminated. Code is bound to this library, so it is loaded for good.
        let found = unsafe {
            let handle =
                (functions().dlopen)(SONAME_FOR_OPEN.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            (functions().dlsym)(handle, self.name.as_ptr())
        };
        assert!(!found.is_null(), "{SONAME} defines {:?}", self.name);
        self.found.store(found, Ordering::Release);
        found
    }
}

/// `__cxa_guard_acquire(guard)`: whether the caller is to initialize. It waits while another thread does.
extern "C-unwind" fn acquire(guard: *mut c_void) -> c_int {
    // SAFETY: the function has this signature.
    let original: unsafe extern "C-unwind" fn(*mut c_void) -> c_int =
        unsafe { std::mem::transmute(ACQUIRE.address()) };
    awaited::begin();
    // SAFETY: passed on.
    let initializes = unsafe { original(guard) };
    if initializes == 0 {
        awaited::end();
    }
    initializes
}

/// `__cxa_guard_release(guard)`: the variable is initialized.
extern "C-unwind" fn release(guard: *mut c_void) {
    finish(&RELEASE, guard);
}

/// `__cxa_guard_abort(guard)`: the initialization has thrown.
extern "C-unwind" fn abort(guard: *mut c_void) {
    finish(&ABORT, guard);
}

fn finish(original: &Original, guard: *mut c_void) {
    // SAFETY: both functions have this signature.
    let original: unsafe extern "C-unwind" fn(*mut c_void) =
        unsafe { std::mem::transmute(original.address()) };
    // SAFETY: passed on.
    unsafe { original(guard) };
    awaited::end();
}

//! Functions that code of replicas registers with the C library, to be called at the exit of the process
//! or of a thread, and around a fork.
//!
//! They must be called, or forgotten, before their replica is unmapped: see
//! [`crate::replica::registered`].

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::current;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::replica::{Replica, registered as replica};
use crate::sys::exit::{self, __cxa_atexit, Handler, StatusFirst};
use crate::sys::guard;
use crate::sys::lock::undisturbed;
use crate::visible::publish;

/// Records a registration with `handle`, and returns the replica of that handle.
pub(crate) fn note(handle: *mut c_void) -> Option<Arc<Replica>> {
    let replica = publish::find(handle as usize)?;
    replica.registered.note(handle);
    Some(replica)
}

/// The domain of the replica with `handle`, if it has a list of exit handlers of its own.
fn one_of_many(handle: *mut c_void) -> Option<Domain> {
    let replica = publish::find(handle as usize)?;
    domain::by_id(replica.domain).filter(Domain::is_one_of_many)
}

/// `__cxa_atexit(handler, argument, handle)`.
///
/// # Safety
/// As the Itanium C++ ABI says of it.
pub(crate) unsafe extern "C" fn cxa_atexit(
    handler: Handler,
    argument: *mut c_void,
    handle: *mut c_void,
) -> c_int {
    if let Some(domain) = one_of_many(handle) {
        return domain.0.exits.register(handler, argument.expose_provenance(), handle as usize);
    }
    let replica = note(handle);
    let domain = replica.and_then(|replica| domain::by_id(replica.domain));
    if !domain.is_some_and(|domain| domain.is_commons()) {
        // SAFETY: passed on.
        return undisturbed(|| unsafe { __cxa_atexit(handler, argument, handle) });
    }
    let of_all = Box::into_raw(Box::new(OfAll { handler, argument }));
    // SAFETY: `call_of_all` takes the box over.
    let result = undisturbed(|| unsafe { __cxa_atexit(call_of_all, of_all.cast(), handle) });
    if result != 0 {
        // SAFETY: it was not registered, so this is its only use.
        drop(unsafe { Box::from_raw(of_all) });
    }
    result
}

/// A handler of a library that exists once for all domains.
struct OfAll {
    handler: Handler,
    argument: *mut c_void,
}

/// Calls it, unless the process exits while code of a domain runs, which may use the library.
unsafe extern "C-unwind" fn call_of_all(of_all: *mut c_void, status: c_int) {
    // SAFETY: made by `cxa_atexit` for this call alone: the C library calls a function once.
    let OfAll { handler, argument } = *unsafe { Box::from_raw(of_all.cast::<OfAll>()) };
    if exit::is_end_of_a_library() || !domain::is_any_busy() {
        // SAFETY: registered so by the library's code, which is mapped until it was finalized.
        unsafe { handler(argument, status) };
    }
}

/// A function that `on_exit` has registered.
struct OnExit {
    function: StatusFirst,
    argument: *mut c_void,
}

/// `on_exit(function, argument)`: an exit handler that gets the status first. The C library never forgets it.
///
/// # Safety
/// As on_exit(3).
pub(crate) unsafe extern "C" fn on_exit(function: StatusFirst, argument: *mut c_void) -> c_int {
    let Some(domain) = one_of_many(function as *mut c_void) else {
        // SAFETY: passed on.
        return undisturbed(|| unsafe { exit::on_exit(function, argument) });
    };
    let registered = Box::into_raw(Box::new(OnExit { function, argument }));
    let (address, handle) = (registered.expose_provenance(), function as usize);
    let result = domain.0.exits.register(call_with_status, address, handle);
    if result != 0 {
        // SAFETY: it was not registered, so this is its only use.
        drop(unsafe { Box::from_raw(registered) });
    }
    result
}

/// Calls what `on_exit` has registered.
unsafe extern "C-unwind" fn call_with_status(registered: *mut c_void, status: c_int) {
    // SAFETY: made by `on_exit` for this call alone: a handler is called once.
    let OnExit { function, argument } = *unsafe { Box::from_raw(registered.cast::<OnExit>()) };
    // SAFETY: registered so by code of a replica, which is mapped until it was finalized.
    unsafe { function(status, argument) }
}

/// `__cxa_finalize(handle)`, which a library calls at its end.
///
/// # Safety
/// As the Itanium C++ ABI says of it.
pub(crate) unsafe extern "C-unwind" fn cxa_finalize(handle: *mut c_void) {
    let replica = publish::find(handle as usize);
    match one_of_many(handle).zip(replica) {
        // All of the library, in order: `on_exit` has no handle. The C library's own entries are forgotten after the
        // library's destructors.
        Some((domain, replica)) => {
            let span = replica.base..replica.base + replica.memory.length();
            domain.0.exits.finalize(|one| span.contains(&one));
        }
        // SAFETY: passed on.
        None => unsafe { exit::finalize(handle) },
    }
}

/// `__cxa_at_quick_exit(handler, handle)`, on which `at_quick_exit` is built. glibc passes the handler
/// no meaningful argument.
///
/// # Safety
/// As at_quick_exit (C11, 7.22.4.3).
pub(crate) unsafe extern "C" fn cxa_at_quick_exit(handler: Handler, handle: *mut c_void) -> c_int {
    unsafe extern "C" {
        fn __cxa_at_quick_exit(handler: Handler, handle: *mut c_void) -> c_int;
    }
    note(handle);
    // As in `cxa_atexit`.
    // SAFETY: passed on.
    undisturbed(|| unsafe { __cxa_at_quick_exit(handler, handle) })
}

/// The type of function that `__cxa_thread_atexit` takes.
type Destructor = unsafe extern "C-unwind" fn(*mut c_void);

struct ThreadDestructor {
    function: Destructor,
    object: *mut c_void,
    /// An address in the replica.
    handle: *mut c_void,
    domain: DomainId,
    /// The replica's. Not the replica itself: its place is used again while the thread lives.
    registered: Arc<replica::Registered>,
}

/// `__cxa_thread_atexit(destructor, object, handle)` of libstdc++, and glibc's function of the same
/// meaning. glibc would charge the executable, as it knows no object that holds the handle.
///
/// # Safety
/// As the Itanium C++ ABI says of it.
pub(crate) unsafe extern "C" fn cxa_thread_atexit(
    function: Destructor,
    object: *mut c_void,
    handle: *mut c_void,
) -> c_int {
    unsafe extern "C" {
        fn __cxa_thread_atexit_impl(
            function: Destructor,
            object: *mut c_void,
            handle: *mut c_void,
        ) -> c_int;
        /// This object's own handle.
        static mut __dso_handle: c_void;
    }
    let Some(replica) = publish::find(handle as usize) else {
        // SAFETY: passed on.
        return unsafe { __cxa_thread_atexit_impl(function, object, handle) };
    };
    replica.registered.begin_thread_destructor();
    let (domain, registered) = (replica.domain, replica.registered.clone());
    let pending = ThreadDestructor { function, object, handle, domain, registered };
    let pending = Box::into_raw(Box::new(pending));
    // SAFETY: `destroy_object` takes the box over, on this thread.
    unsafe { __cxa_thread_atexit_impl(destroy_object, pending.cast(), &raw mut __dso_handle) }
}

unsafe extern "C-unwind" fn destroy_object(pending: *mut c_void) {
    // SAFETY: made by `cxa_thread_atexit` for this call alone.
    let pending = unsafe { Box::from_raw(pending.cast::<ThreadDestructor>()) };
    let ThreadDestructor { function, object, handle, domain, registered } = *pending;
    if !registered.may_destroy() {
        return;
    }
    {
        // SAFETY: the destructor that runs until the guard's end is the domain's.
        let _inside = unsafe { current::enter(domain) };
        let arguments = [object.expose_provenance(), 0, 0];
        // SAFETY: registered so by the replica's code, which is mapped until the last such destructor has run.
        unsafe { guard::call_or_end("a thread's destructor", function as usize, arguments) };
    }
    if registered.end_thread_destructor()
        && let Some(replica) = publish::find(handle as usize)
    {
        publish::withdraw(&[replica]);
    }
}

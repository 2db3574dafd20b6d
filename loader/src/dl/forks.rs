//! Fork, and the handlers of replicas around it.
//!
//! Code of one domain forks, and the child goes on in that domain. The threads of other domains are gone
//! in the child, and their locks stay locked. So handlers of other domains are not called: a handler that
//! takes a lock of its own domain in the child would wait for a thread that does not exist. The same holds
//! for their exit handlers and destructors at the end of the child.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::current;
use crate::dl::exit;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::replica::thunk::{Interposition, Thunks};
use crate::sys::guard;

type Handler = Option<unsafe extern "C-unwind" fn()>;

/// One of the functions of a registration.
struct Registered {
    handler: unsafe extern "C-unwind" fn(),
    domain: DomainId,
}

/// `fork()`, called by code of a domain.
pub(super) extern "C" fn fork(context: usize) -> libc::pid_t {
    let calling = domain::by_id(DomainId(context as u32));
    // Code of the commons forks for the domain that has called it.
    let forking = match &calling {
        Some(commons) if commons.is_commons() => current::domain(),
        calling => calling.as_ref().map(Domain::id),
    };
    let _inside = current::enter(DomainId(context as u32));
    // SAFETY: the calling code's own fork; what follows in the child is a store and a thread-local's change.
    let child = unsafe {
        guard::call_or_end("a handler of fork", libc::fork as *const () as usize, [0; 3])
            as libc::pid_t
    };
    if let (0, Some(forking)) = (child, forking) {
        current::note_fork(forking);
    }
    child
}

/// `__register_atfork(prepare, parent, child, handle)`, which `pthread_atfork` is made of.
///
/// # Safety
/// As pthread_atfork(3).
pub(super) unsafe extern "C" fn register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    handle: *mut c_void,
) -> c_int {
    unsafe extern "C" {
        fn __register_atfork(
            prepare: Handler,
            parent: Handler,
            child: Handler,
            handle: *mut c_void,
        ) -> c_int;
    }
    let mut handlers = [prepare, parent, child];
    let one_of_many = exit::note(handle)
        .and_then(|replica| domain::by_id(replica.domain))
        .filter(Domain::is_one_of_many);
    if let Some(domain) = one_of_many
        && for_its_domain(&mut handlers, domain.id()).is_err()
    {
        return libc::ENOMEM;
    }
    let [prepare, parent, child] = handlers;
    // SAFETY: passed on; what stands for a handler lives as long as the process.
    unsafe { __register_atfork(prepare, parent, child, handle) }
}

/// Registers, in the handlers' place, code that calls them when `domain` forks. glibc passes handlers no
/// argument that could name the domain.
fn for_its_domain(handlers: &mut [Handler; 3], domain: DomainId) -> std::io::Result<()> {
    let given: Vec<_> = handlers.iter().copied().flatten().collect();
    let entries: Vec<Interposition> = given
        .into_iter()
        .map(|handler| {
            let registered = Box::leak(Box::new(Registered { handler, domain }));
            let context = ptr::from_ref(registered).expose_provenance();
            // SAFETY: the thunk stands for a handler, which takes no argument; the context is the record.
            unsafe { Interposition::with_context(call_for_its_domain as *const c_void, 0, context) }
        })
        .collect();
    // Never unmapped: glibc may be calling it on another thread when its replica goes.
    let thunks = Box::leak(Box::new(Thunks::generate(&entries)?));
    let places = handlers.iter_mut().filter(|handler| handler.is_some());
    for (place, &address) in places.zip(&thunks.addresses) {
        // SAFETY: a thunk for a function without arguments, executable for good.
        *place =
            Some(unsafe { std::mem::transmute::<usize, unsafe extern "C-unwind" fn()>(address) });
    }
    Ok(())
}

unsafe extern "C-unwind" fn call_for_its_domain(context: usize) {
    // SAFETY: the address of a value that is never freed, by `for_its_domain`.
    let registered = unsafe { &*ptr::with_exposed_provenance::<Registered>(context) };
    if current::domain() == Some(registered.domain) {
        // SAFETY: as its registration promised; a replica that goes takes its handlers along.
        unsafe { (registered.handler)() }
    }
}

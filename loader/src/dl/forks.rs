//! Fork, and the handlers of replicas around it.
//!
//! Code of one domain forks, and the child goes on in that domain. The threads of other domains are gone
//! in the child, and their locks stay locked. So handlers of other domains are not called: a handler that
//! takes a lock of its own domain in the child would wait for a thread that does not exist. The same holds
//! for their exit handlers and destructors at the end of the child.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::current;
use crate::dl::exit;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::replica::thunk::{Interposition, Thunks};
use crate::sys::guard;
use crate::sys::lock::{Mutex, Rank};
use crate::sys::signals::Blocked;
use crate::sys::{children, descriptors};

type Handler = Option<unsafe extern "C-unwind" fn()>;

/// Code that replaces the three functions of a registration. It is never unmapped: glibc may be calling it on another
/// thread when its replica goes. When the domain is gone, another registration uses it.
struct Registration {
    handlers: &'static [Record; 3],
    /// For each handler, the address that glibc gets.
    thunks: Thunks,
}

/// One of the functions.
struct Record {
    /// The function's address, or 0.
    handler: AtomicUsize,
    /// The domain that it belongs to.
    domain: AtomicU32,
}

static REGISTRATIONS: Mutex<Vec<&'static Registration>> = Mutex::new(Rank::Forks, Vec::new());

impl Registration {
    fn new() -> std::io::Result<&'static Registration> {
        let record = || Record { handler: AtomicUsize::new(0), domain: AtomicU32::new(0) };
        let handlers: &'static [Record; 3] = Box::leak(Box::new([record(), record(), record()]));
        let entries = handlers.each_ref().map(|record| {
            let context = ptr::from_ref(record).expose_provenance();
            // SAFETY: the thunk stands for a handler, which takes no argument; the context is the record.
            unsafe { Interposition::with_context(call_for_its_domain as *const c_void, 0, context) }
        });
        let thunks = Thunks::generate(&entries)?;
        Ok(Box::leak(Box::new(Registration { handlers, thunks })))
    }

    fn domain(&self) -> DomainId {
        DomainId(self.handlers[0].domain.load(Ordering::Acquire))
    }

    fn set(&self, handlers: &[Handler; 3], domain: DomainId) {
        for (record, handler) in self.handlers.iter().zip(handlers) {
            // A fork at this moment calls neither the old function nor the new one for the wrong domain.
            record.handler.store(0, Ordering::SeqCst);
            record.domain.store(domain.0, Ordering::SeqCst);
            let address = handler.map_or(0, |handler| handler as usize);
            record.handler.store(address, Ordering::SeqCst);
        }
    }
}

/// `fork()`, called by code of a domain.
pub(super) extern "C" fn fork(context: usize) -> libc::pid_t {
    // SAFETY: the calling code's own fork.
    forked(context, || unsafe {
        guard::call_or_end("a handler of fork", libc::fork as *const () as usize, [0; 3])
            as libc::pid_t
    })
}

/// The result of `fork`, which forks for code of a domain.
pub(super) fn forked(context: usize, fork: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    let calling = domain::by_id(DomainId(context as u32));
    // Code of the commons forks for the domain that has called it.
    let forking = match calling {
        Some(commons) if commons.is_commons() => current::domain().and_then(domain::by_id),
        calling => calling,
    };
    // SAFETY: the domain's handlers run until the guard's end.
    let _inside = unsafe { current::enter(DomainId(context as u32)) };
    // A handler of SIGCHLD waits for children that are noted.
    let _blocked = Blocked::begin();
    let child = fork();
    if let Some(forking) = forking {
        match child {
            // A store and a thread-local's change. Then system calls alone.
            0 => {
                current::note_fork(forking.id());
                if forking.is_one_of_many() {
                    descriptors::close_others(forking.id());
                }
            }
            1.. if forking.is_one_of_many() => children::note(child, forking.id()),
            _ => {}
        }
    }
    child
}

/// `__register_atfork(prepare, parent, child, handle)`, on which `pthread_atfork` is built.
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
    // SAFETY: passed on; a handler's replacement lives as long as the process.
    unsafe { __register_atfork(prepare, parent, child, handle) }
}

/// Registers, in the handlers' place, code that calls them when `domain` forks. glibc passes handlers no
/// argument that could name the domain.
fn for_its_domain(handlers: &mut [Handler; 3], domain: DomainId) -> std::io::Result<()> {
    let registration = {
        let known = &mut *REGISTRATIONS.lock();
        let unused = known.iter().find(|known| domain::by_id(known.domain()).is_none()).copied();
        let registration = match unused {
            Some(unused) => unused,
            None => {
                let new = Registration::new()?;
                known.push(new);
                new
            }
        };
        registration.set(handlers, domain);
        registration
    };
    for (place, &address) in handlers.iter_mut().zip(&registration.thunks.addresses) {
        if place.is_some() {
            // SAFETY: a thunk for a function without arguments, executable for good.
            let thunk =
                unsafe { std::mem::transmute::<usize, unsafe extern "C-unwind" fn()>(address) };
            *place = Some(thunk);
        }
    }
    Ok(())
}

unsafe extern "C-unwind" fn call_for_its_domain(context: usize) {
    // SAFETY: the address of a value that is never freed, by `Registration::new`.
    let record = unsafe { &*ptr::with_exposed_provenance::<Record>(context) };
    let domain = DomainId(record.domain.load(Ordering::SeqCst));
    let address = record.handler.load(Ordering::SeqCst);
    if address != 0 && current::domain() == Some(domain) {
        // SAFETY: the address of a function that was registered so.
        let handler =
            unsafe { std::mem::transmute::<usize, unsafe extern "C-unwind" fn()>(address) };
        // SAFETY: as its registration promised; a replica that goes takes its handlers along.
        unsafe { handler() }
    }
}

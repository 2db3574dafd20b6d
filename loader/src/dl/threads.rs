//! `pthread_create`: a thread begins in the domain of the code that creates it.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::current;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::locale;
use crate::sys::guard;
use crate::sys::thread::{self, Start};
use crate::tls::Pattern;

struct Birth {
    start: Start,
    argument: *mut c_void,
    domain: DomainId,
    /// The same, where the thread is noted.
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
    let creator = domain::by_id(domain);
    if let Some(creator) = &creator {
        creator.0.belongings.begin_thread();
    }
    let birth = Box::new(Birth { start, argument, domain, creator, pattern: Pattern::now() });
    let birth = Box::into_raw(birth);
    // SAFETY: the caller's promise; `begin` takes the box over.
    let status = unsafe { thread::create(thread, attributes, begin, birth.cast()) };
    if status != 0 {
        // SAFETY: no thread was created that could have taken it.
        let birth = unsafe { Box::from_raw(birth) };
        birth.creator.iter().for_each(|creator| creator.0.belongings.no_thread());
    }
    status
}

extern "C-unwind" fn begin(birth: *mut c_void) -> *mut c_void {
    // SAFETY: made by `pthread_create` above for this thread alone.
    let Birth { start, argument, domain, creator, pattern } =
        *unsafe { Box::from_raw(birth.cast::<Birth>()) };
    pattern.refresh();
    let is_one_of_many = creator.as_ref().is_some_and(Domain::is_one_of_many);
    if let Some(creator) = creator {
        creator.0.belongings.note_thread();
    }
    // Not a guard: the start routine may end by pthread_exit, which unwinds by force.
    // SAFETY: the thread runs the domain's code from its begin to its end.
    unsafe { current::replace(Some(domain)) };
    if is_one_of_many {
        locale::begin_thread(domain);
    }
    let arguments = [argument.expose_provenance(), 0, 0];
    // SAFETY: the creator gave the routine and its argument for this thread.
    let result =
        unsafe { guard::call_or_end("the start routine of a thread", start as usize, arguments) };
    ptr::with_exposed_provenance_mut(result)
}

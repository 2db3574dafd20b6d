//! Values that the application has lent to interpreters which contain their crashes, and that Python gives back by a call: the boxes of host
//! functions, owners of memory, values of classes, streams. A crashed interpreter gives nothing back, so it is taken from it.

use super::contained::{self, Contained};
use hydrozoa_loader::DomainId;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// Drops what a context stands for, as Python would have it dropped.
type Drop = unsafe extern "C" fn(context: *mut c_void);

/// Contexts, by their addresses.
pub(super) type Lent = BTreeMap<usize, Drop>;

/// Notes that the interpreter in a domain has a context, and gives it back by `drop`.
pub(crate) fn give(domain: DomainId, context: *mut c_void, drop: Drop) {
    if let Some(contained) = contained::find(domain) {
        contained.lent.with(|lent| lent.insert(context.expose_provenance(), drop));
    }
}

/// Notes that it has given a context back.
pub(crate) fn take_back(domain: DomainId, context: *mut c_void) {
    if let Some(contained) = contained::find(domain) {
        contained.lent.with(|lent| lent.remove(&context.addr()));
    }
}

impl Contained {
    /// Drops all that the interpreter has not given back.
    ///
    /// # Safety
    ///
    /// The interpreter has crashed, and none of its code runs any more.
    pub(crate) unsafe fn take_all_back(&self) {
        // Each drop may run code of the application's, which may lend something to others.
        while let Some((context, drop)) = self.lent.with(BTreeMap::pop_first) {
            // SAFETY: `drop` belongs to the context, and nobody has called it.
            unsafe { drop(std::ptr::with_exposed_provenance_mut(context)) };
        }
    }
}

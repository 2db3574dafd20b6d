//! An operator's entry in the dispatcher (ATen/core/dispatch/OperatorEntry.h), read from outside.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::super::adapter::{adapter, symbols};
use super::super::kernel::{KernelFunction, OperatorName, OptionalHandle};
use super::super::locks::NoFork;

/// The entry of the operator with the full name `operator`, if it has one.
pub(super) fn find(operator: &str) -> Option<*const c_void> {
    let name = OwnedName::new(operator);
    let mut found = MaybeUninit::<OptionalHandle>::uninit();
    // The dispatcher counts who reads its table, and whoever changes it waits for them.
    let _no_fork = NoFork::begin();
    // SAFETY: the dispatcher, a name, and room for the result, which is trivially destructible.
    unsafe {
        let dispatcher = (symbols().dispatcher)();
        (symbols().dispatcher_find)(found.as_mut_ptr(), dispatcher, name.as_ptr());
        let found = found.assume_init_ref();
        found.engaged.then_some(found.handle.entry)
    }
}

/// The schema of a defined operator.
pub(super) fn schema_of(operator: &str) -> Option<*const c_void> {
    let layout = adapter().layout();
    let entry = find(operator)?;
    // SAFETY: a live entry; the flag of its optional schema, and the schema, which comes first.
    unsafe {
        let engaged = *entry.byte_add(layout.entry_schema_engaged).cast::<u8>();
        (engaged == 1).then(|| entry.byte_add(layout.entry_schema))
    }
}

/// The name of the operator whose entry this is.
///
/// # Safety
/// `entry` is a live `OperatorEntry`.
pub(super) unsafe fn name_of(entry: *const c_void) -> String {
    // SAFETY: an entry's first member is its name.
    unsafe { (*entry.cast::<OperatorName>()).full() }
}

/// The place of an index in an operator's dispatch table.
///
/// # Safety
/// `entry` is a live `OperatorEntry`.
pub(super) unsafe fn table_entry(entry: *const c_void, index: usize) -> *const KernelFunction {
    let layout = adapter().layout();
    debug_assert!(index < layout.runtime_entries);
    // SAFETY: the table lies at this offset of the entry and has an element for each index.
    unsafe { entry.byte_add(layout.entry_dispatch_table).cast::<KernelFunction>().add(index) }
}

/// The state of an operator before a router is registered for one of its keys.
pub(super) struct Before {
    /// Its dispatch table; empty if the operator did not exist.
    table: Vec<KernelFunction>,
    /// Whether libtorch had a kernel of its own registered for exactly that key.
    pub(super) had_kernel: bool,
}

impl Before {
    /// The dispatcher's registrations must not change until [`Before::replaced_by`].
    pub(super) fn of(operator: &str, key: u16) -> Before {
        let Some(entry) = find(operator) else {
            return Before { table: Vec::new(), had_kernel: false };
        };
        let indices = 0..adapter().layout().runtime_entries;
        // SAFETY: a live entry, whose table has these indices. The copies own nothing, and are read
        // only while the owners of the originals are registered.
        let table =
            indices.map(|index| unsafe { std::ptr::read(table_entry(entry, index)) }).collect();
        // SAFETY: a live entry.
        Before { table, had_kernel: unsafe { (symbols().entry_has_kernel)(entry, key) } }
    }

    /// The valid kernels whose places now hold a kernel with the functor `functor`.
    pub(super) fn replaced_by(
        &self,
        operator: &str,
        functor: *mut c_void,
    ) -> Vec<(usize, KernelFunction)> {
        let Some(entry) = find(operator) else { return Vec::new() };
        let old = self.table.iter().enumerate();
        old.filter(|(index, kernel)| {
            // SAFETY: as in `of`.
            let now = unsafe { &*table_entry(entry, *index) };
            kernel.boxed.is_some() && kernel.functor != functor && now.functor == functor
        })
        .map(|(index, kernel)| (index, kernel.retained()))
        .collect()
    }
}

/// An operator's name as `c10::OperatorName`, for look-ups.
pub(super) struct OwnedName(Box<MaybeUninit<OperatorName>>);

impl OwnedName {
    pub(super) fn new(full: &str) -> OwnedName {
        let (name, overload) = full.split_once('.').unwrap_or((full, ""));
        let mut place = Box::new(MaybeUninit::<OperatorName>::uninit());
        // SAFETY: the box is fresh memory that the strings never leave.
        unsafe { OperatorName::write(place.as_mut_ptr(), name, overload, symbols().allocator()) };
        OwnedName(place)
    }

    pub(super) fn as_ptr(&self) -> *const OperatorName {
        self.0.as_ptr()
    }
}

impl Drop for OwnedName {
    fn drop(&mut self) {
        // SAFETY: written by `new`.
        unsafe { OperatorName::destroy(self.0.as_mut_ptr(), symbols().allocator()) };
    }
}

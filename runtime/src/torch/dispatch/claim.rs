//! A kernel's way from an interpreter's library to the dispatcher.

use std::sync::Arc;

use super::super::adapter::{Member, adapter, symbols};
use super::super::kernel::{CppFunction, KernelFunction};
use super::owned::OwnedKernel;
use super::registry::{HostLibrary, Registered, Slot};

/// What an interpreter asks libtorch to register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// A kernel. The dispatcher gets it only if it should hold something else than it does.
    Kernel,
    /// The operator's definition and a kernel with it.
    Definition,
}

/// Makes the kernel in `function` the newest that `member` has in `slot`.
///
/// `register` hands `function` to libtorch, through the library of ours that it returns. By then
/// `function` holds what the dispatcher should hold for all interpreters. If libtorch throws, the
/// interpreter has the kernel that it had before.
///
/// Returns the number by which [`Slot::release`] takes the kernel back.
///
/// # Safety
/// `function` is live.
pub(super) unsafe fn register(
    slot: &mut Slot,
    member: &'static Member,
    function: *mut CppFunction,
    request: Request,
    register: impl FnOnce(&mut Slot) -> Arc<HostLibrary>,
) -> u64 {
    // SAFETY: by contract.
    let (kernel, wanted) = unsafe { route(slot, function) };
    let number = slot.claim(member, kernel);
    let undo = Undo { slot, member, number };
    if request == Request::Definition || undo.slot.registered != wanted {
        if request == Request::Kernel {
            // The dispatcher warns of a second kernel, and refuses a second fallback.
            undo.slot.withdraw();
        }
        // SAFETY: by contract; the size is the release's.
        unsafe {
            (*function).leave_interpreter(adapter().layout().schema_size, symbols().allocator());
        }
        let library = register(undo.slot);
        undo.slot.library = Some(library);
        undo.slot.registered = wanted;
    }
    std::mem::forget(undo);
    number
}

/// Moves the kernel out of `function` and puts what the dispatcher should hold in its place.
///
/// # Safety
/// `function` is live.
unsafe fn route(slot: &Slot, function: *mut CppFunction) -> (Arc<OwnedKernel>, Registered) {
    // SAFETY: by contract.
    let kernel = unsafe { KernelFunction::take(&raw mut (*function).kernel) };
    let wanted = slot.wanted(&kernel);
    let stand_in = match wanted {
        Registered::Router(entries) => slot.router.kernel(entries),
        Registered::Fallthrough | Registered::Nothing => kernel.retained(),
    };
    // SAFETY: the place was moved out of.
    unsafe { (&raw mut (*function).kernel).write(stand_in) };
    (Arc::new(OwnedKernel(kernel)), wanted)
}

/// Takes a claim back if libtorch throws.
struct Undo<'a> {
    slot: &'a mut Slot,
    member: &'static Member,
    number: u64,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // The kernel leaks: destroying it could run Python, and a lock is held.
        std::mem::forget(self.slot.release(self.member, self.number));
    }
}

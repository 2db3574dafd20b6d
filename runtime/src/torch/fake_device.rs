//! The stand-in for a missing CUDA device (c10/core/impl/DeviceGuardImplInterface.cpp).
//!
//! `FakeTensorMode`, and with it `torch.compile` and `torch.export`, asks for it in a build for CUDA on a machine
//! without a device. libtorch has one table of device guards. It puts an object there that belongs to the thread
//! which asks first, and the end of that thread frees it. A later call through the table ends in SIGSEGV. In plain
//! Python the first thread is usually the main one; here each interpreter has threads that end before the others.
//! The table gets an object that is never freed. Needed in torch 2.11.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::adapter::{Member, lock, symbols};
use super::exported::Answer;
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: the function does for its interpreter what the symbol that its documentation names does for the process.
    unsafe { vec![EXPORTS.fake_device_ensure.answered_by(ensure, member)] }
}

/// `DeviceType::CUDA`, an index of the table.
const CUDA: usize = 1;

/// `c10::impl::ensureCUDADeviceGuardSet()`.
unsafe extern "C-unwind" fn ensure(_member: &'static Member) {
    // Others who ask must not see the object of this thread.
    static ASKING: Mutex<()> = Mutex::new(());
    let _one = lock(&ASKING);
    // SAFETY: the table has an entry for each type of device.
    let entry = unsafe { &*symbols().device_guards.add(CUDA) };
    let before = entry.load(Ordering::Acquire);
    // SAFETY: libtorch's own function.
    unsafe { (symbols().fake_device_ensure)() };
    let made = entry.load(Ordering::Acquire);
    if made == before || made.is_null() {
        return;
    }
    // SAFETY: the thread's own object, which is alive. A `FakeGuardImpl` has no members, so its virtual table is all.
    let immortal: &mut *const c_void = Box::leak(Box::new(unsafe { *made }));
    entry.store(immortal, Ordering::Release);
}

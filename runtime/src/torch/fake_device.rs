//! The stand-in for a missing CUDA device (c10/core/impl/DeviceGuardImplInterface.cpp).
//!
//! `FakeTensorMode`, and with it `torch.compile` and `torch.export`, asks for it in a build for CUDA on a machine
//! without a device. libtorch has one table of device guards. It puts an object there that belongs to the thread
//! which asks first, and the end of that thread frees it. A later call through the table ends in SIGSEGV. In plain
//! Python the first thread is usually the main one; here the application's own threads use an interpreter in turn.
//! The table gets an object that is never freed: the one table under policy `shared`, and the table of each
//! interpreter under `isolated`. Needed in torch 2.11.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

use hydrozoa_loader::{Domain, OpenFlags};

use super::adapter::{Member, lock, symbols};
use super::exported::Answer;
use super::files::stem;
use super::locks::Turns;
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: the function does for its interpreter what the symbol that its documentation names does for the process.
    unsafe { vec![EXPORTS.fake_device_ensure.answered_by(ensure_shared, member)] }
}

/// The device guards of an interpreter that has its own libtorch. It is never freed: thunks hold its address.
#[derive(Debug, Default)]
pub(crate) struct OwnGuards {
    /// None before the domain is made and when its interpreter has ended.
    domain: Mutex<Option<Domain>>,
    guards: OnceLock<Option<Guards>>,
}

impl OwnGuards {
    /// What the domain of an interpreter interposes. It is to be attached to that domain.
    pub(crate) fn interpositions(&'static self) -> Vec<Answer> {
        // SAFETY: the function does for its interpreter what the symbol that its documentation names does.
        unsafe { vec![EXPORTS.fake_device_ensure.answered_by(ensure_own, self)] }
    }

    /// Notes the domain, or with none that it will have no use of it any more.
    pub(crate) fn attach(&self, domain: Option<&Domain>) {
        *lock(&self.domain) = domain.cloned();
    }

    /// Those of the libc10 that the domain has loaded.
    fn find(&self) -> Option<Guards> {
        let domain = lock(&self.domain).clone()?;
        let path = domain.replicas().into_iter().map(|replica| replica.path);
        let path = path.into_iter().find(|path| stem(path) == Some("libc10"))?;
        // SAFETY: nothing is loaded, so no constructor runs.
        let libc10 = unsafe { domain.open(&path, OpenFlags::NOW | OpenFlags::NOLOAD) }.ok()?;
        let ensure = libc10.symbol(EXPORTS.fake_device_ensure.name).ok()?;
        let table = libc10.symbol(EXPORTS.device_guards.name).ok()?;
        // SAFETY: libc10 defines both symbols there. The replica is mapped as long as its domain runs code.
        let (ensure, table) =
            unsafe { (EXPORTS.fake_device_ensure.at(ensure), EXPORTS.device_guards.at(table)) };
        Some(Guards { ensure, table })
    }
}

/// `c10::impl::ensureCUDADeviceGuardSet()` under policy `shared`.
unsafe extern "C-unwind" fn ensure_shared(_member: &'static Member) {
    let (ensure, table) = (symbols().fake_device_ensure, symbols().device_guards);
    Guards { ensure, table }.ensure();
}

/// The same under policy `isolated`.
unsafe extern "C-unwind" fn ensure_own(own: &'static OwnGuards) {
    if let Some(guards) = own.guards.get_or_init(|| own.find()) {
        guards.ensure();
    }
}

/// libc10's table of device guards, and the function that puts the stand-in there.
#[derive(Debug)]
struct Guards {
    ensure: unsafe extern "C-unwind" fn(),
    table: *const AtomicPtr<*const c_void>,
}

// SAFETY: the address of a function and that of atomic variables, which any thread may use.
unsafe impl Send for Guards {}
// SAFETY: as above.
unsafe impl Sync for Guards {}

/// `DeviceType::CUDA`, an index of the table.
const CUDA: usize = 1;

impl Guards {
    fn ensure(&self) {
        // Others who ask must not see the object of this thread.
        static ASKING: Turns = Turns::new();
        let _one = ASKING.wait();
        // SAFETY: the table has an entry for each type of device.
        let entry = unsafe { &*self.table.add(CUDA) };
        let before = entry.load(Ordering::Acquire);
        // SAFETY: libtorch's own function.
        unsafe { (self.ensure)() };
        let made = entry.load(Ordering::Acquire);
        if made == before || made.is_null() {
            return;
        }
        // SAFETY: the thread's own object, which is alive. A `FakeGuardImpl` has no members, so its virtual table is all.
        let immortal: &mut *const c_void = Box::leak(Box::new(unsafe { *made }));
        entry.store(immortal, Ordering::Release);
    }
}

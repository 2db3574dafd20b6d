//! The stand-in for a missing CUDA device (c10/core/impl/DeviceGuardImplInterface.cpp).
//!
//! `FakeTensorMode`, and with it `torch.compile` and `torch.export`, asks for it in a build for CUDA on a machine
//! without a device. libc10 has a table of device guards. It puts an object there that belongs to the thread
//! which asks first, and the end of that thread frees it. A later call through the table ends in SIGSEGV. In plain
//! Python the first thread is usually the main one; here the application's own threads use an interpreter in turn.
//! So the table gets an object that is never freed.

use hydrozoa_loader::{Domain, Interposition, LeafLock, OpenFlags};
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `c10::impl::ensureCUDADeviceGuardSet()`.
const ENSURE: &str = "_ZN3c104impl24ensureCUDADeviceGuardSetEv";

/// `c10::impl::device_guard_impl_registry`, by type of device.
const TABLE: &str = "_ZN3c104impl26device_guard_impl_registryE";

/// `DeviceType::CUDA`, an index of the table.
const CUDA: usize = 1;

/// The stand-in of an interpreter. It is never freed: a thunk holds its address.
#[derive(Debug, Default)]
pub(crate) struct FakeDevice {
    /// None before the domain is made and when its interpreter has ended.
    domain: LeafLock<Option<Domain>>,
    guards: OnceLock<Option<Guards>>,
}

impl FakeDevice {
    /// The function that an interpreter's domain interposes. Attach this to that domain.
    pub(crate) fn interposition(&'static self) -> (&'static str, Interposition) {
        let context = ptr::from_ref(self).expose_provenance();
        // SAFETY: the symbol's function has no arguments and no result, and `ensure` does for its interpreter what that does.
        let answer = unsafe { Interposition::with_context(ensure as *const c_void, 0, context) };
        (ENSURE, answer)
    }

    /// Sets the domain, or with none notes that it no longer needs the stand-in.
    pub(crate) fn attach(&self, domain: Option<&Domain>) {
        let mut other = domain.cloned();
        self.domain.with(|own| std::mem::swap(own, &mut other));
    }

    /// The guards of the libc10 that the domain has loaded.
    fn find(&self) -> Option<Guards> {
        let domain = self.domain.with(|domain| domain.clone())?;
        let mut replicas = domain.replicas().into_iter();
        let is_libc10 = |name: &str| name == "libc10.so" || name.starts_with("libc10.so.");
        let libc10 = replicas.find(|one| {
            one.path.file_name().and_then(|name| name.to_str()).is_some_and(is_libc10)
        })?;
        // SAFETY: nothing is loaded, so no constructor runs.
        let libc10 =
            unsafe { domain.open(&libc10.path, OpenFlags::NOW | OpenFlags::NOLOAD) }.ok()?;
        let (ensure, table) = (libc10.symbol(ENSURE).ok()?, libc10.symbol(TABLE).ok()?);
        // SAFETY: libc10 defines the function there. The replica is mapped as long as its domain runs code.
        let ensure = unsafe { std::mem::transmute::<*const c_void, Ensure>(ensure) };
        Some(Guards { ensure, table: table.cast() })
    }
}

type Ensure = unsafe extern "C-unwind" fn();

/// `c10::impl::ensureCUDADeviceGuardSet()`. libtorch_python calls it under the GIL.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C-unwind" fn ensure(context: usize) {
    // SAFETY: by contract; it is never freed.
    let own: &'static FakeDevice = unsafe { &*ptr::with_exposed_provenance(context) };
    if let Some(guards) = own.guards.get_or_init(|| own.find()) {
        guards.ensure();
    }
}

/// libc10's table of device guards, and the function that puts the stand-in there.
#[derive(Debug)]
struct Guards {
    ensure: Ensure,
    table: *const AtomicPtr<*const c_void>,
}

// SAFETY: the address of a function and that of atomic variables, which any thread may use.
unsafe impl Send for Guards {}
// SAFETY: as above.
unsafe impl Sync for Guards {}

impl Guards {
    fn ensure(&self) {
        // SAFETY: the table has an entry for each type of device.
        let entry = unsafe { &*self.table.add(CUDA) };
        let before = entry.load(Ordering::Acquire);
        // SAFETY: libc10's own function.
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

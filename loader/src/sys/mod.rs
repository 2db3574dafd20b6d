//! All requests to the operating system and to the C library.

pub(crate) mod answering;
pub(crate) mod broadcast;
pub(crate) mod children;
pub(crate) mod clibrary;
pub(crate) mod descriptors;
mod domain_by_number;
pub(crate) mod dynamic;
pub(crate) mod environ;
pub(crate) mod errno;
pub(crate) mod exit;
pub(crate) mod file;
pub(crate) mod frames;
pub(crate) mod functions;
pub(crate) mod guard;
pub(crate) mod handlers;
pub(crate) mod locale;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod opening;
pub(crate) mod own_memory;
mod pages;
pub(crate) mod process;
pub(crate) mod quiet_file;
pub(crate) mod ranges;
pub(crate) mod record_locks;
pub(crate) mod signals;
pub(crate) mod thread;

pub(crate) use pages::{page_down, page_size, page_up};

/// The processor's features as the kernel reports them: AT_HWCAP and AT_HWCAP2 of the auxiliary vector.
pub(crate) fn hardware_capabilities() -> [u64; 2] {
    // SAFETY: asks for two numbers.
    unsafe { [libc::getauxval(libc::AT_HWCAP), libc::getauxval(libc::AT_HWCAP2)] }
}

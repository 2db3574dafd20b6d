//! Kernels that interpreters have registered.

use super::super::adapter::symbols;
use super::super::kernel::KernelFunction;

/// A kernel that one interpreter registered. Dropping it may run Python code of that interpreter,
/// so it is never dropped while one of the adapter's locks is held.
#[derive(Debug)]
pub(super) struct OwnedKernel(pub(super) KernelFunction);

// SAFETY: a kernel is called from any thread, and its functor's count is atomic.
unsafe impl Send for OwnedKernel {}
// SAFETY: as above.
unsafe impl Sync for OwnedKernel {}

impl Drop for OwnedKernel {
    fn drop(&mut self) {
        // SAFETY: the kernel function is live and is not used after this.
        unsafe { (symbols().kernel_destroy)(&mut self.0) };
    }
}

/// Whether this is the kernel that the dispatcher skips instead of calling.
pub(super) fn is_fallthrough(kernel: &KernelFunction) -> bool {
    kernel.boxed.is_some_and(|boxed| boxed as *const _ == symbols().fallthrough_kernel)
}

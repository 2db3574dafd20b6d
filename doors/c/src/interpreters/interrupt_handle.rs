//! Interrupts of a session's calls, from other threads.

use crate::boundary::free;
use runtime::InterruptHandle;

/// Interrupts the calls of one session. Any thread may use it, also after the session has been freed; then it
/// interrupts nothing.
pub struct hz_interrupt_handle(pub(crate) InterruptHandle);

/// Raises `_hydrozoa.interrupts.Interrupted`, a KeyboardInterrupt, in the Python code that a call of the session runs
/// now, within about 10 ms. The call then returns HZ_ERROR_INTERRUPTED. True if there was such a call.
///
/// Native code (a C function that waits or computes) is not interrupted: the exception is raised when it returns. This
/// does not wait for the call. False for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_interrupt_handle_interrupt(handle: Option<&hz_interrupt_handle>) -> bool {
    handle.is_some_and(|handle| handle.0.interrupt())
}

/// Frees it. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_interrupt_handle_free(handle: Option<Box<hz_interrupt_handle>>) {
    free(handle);
}

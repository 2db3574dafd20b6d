//! The frames of the calling thread, as an unwinder sees them.

use std::ffi::{c_int, c_void};

use super::guard::Context;

/// One frame of a walk.
pub(crate) struct Frame {
    /// Its return point: behind the call that it makes.
    pub address: usize,
    /// Its function; 0 without unwind information.
    pub function: usize,
    /// Its stack pointer.
    pub stack: usize,
    /// Whether an unwinder would run code of it: it has a language-specific data area (Itanium C++ ABI: Exception
    /// Handling, 1.5.2).
    pub has_handlers: bool,
}

// 1.5 and 1.6 there.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        trace: extern "C" fn(*mut Context, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
    fn _Unwind_GetCFA(context: *mut Context) -> usize;
    fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
    fn _Unwind_GetLanguageSpecificData(context: *mut Context) -> usize;
}

// Values of `_Unwind_Reason_Code`.
const GO_ON: c_int = 0;
const STOP: c_int = 4;

/// Calls `visit` with each frame of the calling thread, the innermost first, until it returns false, or until a frame
/// without unwind information comes.
pub(crate) fn walk(visit: &mut dyn FnMut(Frame) -> bool) {
    extern "C" fn trace(context: *mut Context, visit: *mut c_void) -> c_int {
        // SAFETY: what `walk` has passed, for this call.
        let visit = unsafe { &mut *visit.cast::<&mut dyn FnMut(Frame) -> bool>() };
        // SAFETY: the unwinder's context of the frame at hand.
        let frame = unsafe {
            Frame {
                address: _Unwind_GetIP(context),
                function: _Unwind_GetRegionStart(context),
                stack: _Unwind_GetCFA(context),
                has_handlers: _Unwind_GetLanguageSpecificData(context) != 0,
            }
        };
        if visit(frame) { GO_ON } else { STOP }
    }
    let mut visit = visit;
    // SAFETY: the argument is what the function expects, and lives until the end of the walk.
    unsafe { _Unwind_Backtrace(trace, (&raw mut visit).cast()) };
}

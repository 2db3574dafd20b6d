//! Handlers of signals.

use std::ffi::c_int;
use std::ops::Range;
use std::{mem, ptr};

/// Gives signals whose handler lies in one of `ranges` their default action.
pub(crate) fn forget(ranges: &[Range<usize>]) {
    for number in 1..=libc::SIGRTMAX() {
        // SAFETY: zero is a value of every field.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: asks only; the place is valid.
        let known = unsafe { libc::sigaction(number, ptr::null(), &mut action) } == 0;
        if known && ranges.iter().any(|range| range.contains(&action.sa_sigaction)) {
            reset(number);
        }
    }
}

fn reset(number: c_int) {
    // SAFETY: zero is a value of every field, and SIG_DFL an action.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(number, &action, ptr::null_mut());
    }
}

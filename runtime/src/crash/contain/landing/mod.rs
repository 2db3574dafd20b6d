//! The call of a guarded function, and the way back from a crash in it.
//!
//! A guarded function jumps to [`guard`] with its [`GuardEntry`](super::GuardEntry) in the static chain's register. The guard keeps what the psABI has
//! a function preserve in a place off the stack ([`Kept`]), and calls the function. A handler of signals that discards the call's frames
//! continues the thread at `landing`, with the guard's frame pointer and that place, and the guard returns what the entry
//! says. Nothing is unwound.
//!
//! Each machine's module has the guard, the landing and the registers that are kept. The frame is the same in the words that are named here:
//!
//! ```text
//!   base + 8    return address
//!   base        the caller's frame pointer
//!   base - 8    the entry
//!   base - 64   the place off the stack, or UNNOTED
//! ```

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

use super::inside;
use machine::{AT_CALL, Registers};
use std::ffi::{c_int, c_void};

pub(super) use machine::{call_guarded, guard};

/// All that a landing needs. The guard and the landing know the places of the registers, which are at its begin.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Kept {
    registers: Registers,
    /// The guard's frame pointer.
    base: usize,
    /// Copies of words of its frame, which must be whole: the caller's frame pointer, the return address, the entry.
    words: [usize; 3],
}

/// The places of [`Kept::words`], in words from the frame pointer; and that of the place off the stack.
const WORDS: [isize; 3] = [0, 1, -1];
const OWN: isize = -8;

impl Kept {
    /// Notes the frame with this frame pointer. The guard adds the registers.
    ///
    /// # Safety
    ///
    /// The frame is that of a [`guard`] which has not returned. The place is valid for writes.
    #[inline]
    pub(super) unsafe fn begin(place: *mut Self, base: *const usize) {
        // Word by word: the processor makes one load of words that were just stored one by one wait for the cache (Intel
        // Optimization Reference Manual, Store Forwarding).
        // SAFETY: by contract.
        unsafe {
            (*place).base = base.addr();
            (*place).words = WORDS.map(|word| base.offset(word).read_volatile());
        }
    }

    /// Whether the frame is as it was. `own` is where this was copied from.
    pub(super) fn is_whole(&self, own: usize) -> bool {
        let base = std::ptr::with_exposed_provenance::<usize>(self.base);
        // SAFETY: the memory of the thread's own stack is there, whatever it holds.
        unsafe {
            WORDS.map(|word| base.offset(word).read_volatile()) == self.words
                && base.offset(OWN).read_volatile() == own
        }
    }

    /// The stack pointer of the frame at its call.
    pub(super) fn stack(&self) -> usize {
        self.base - AT_CALL
    }

    /// Whether the frame's caller has this stack pointer (the frame's canonical frame address).
    fn has_caller_at(&self, stack: usize) -> bool {
        self.base + 16 == stack
    }

    /// Has the interrupted thread go on at the frame's landing.
    ///
    /// # Safety
    ///
    /// `context` is what the kernel has passed to the handler that runs, and the frame is whole and one of its thread's. The
    /// frames inside of it may be discarded. `own` is where this was copied from.
    pub(super) unsafe fn land(&self, own: usize, context: *mut c_void) {
        // SAFETY: by contract.
        unsafe {
            machine::land(self.base, own, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext)
        };
    }

    /// The same without a signal, from the code that the frame has called.
    ///
    /// # Safety
    ///
    /// As for [`Kept::land`], for the calling thread. Its frames hold nothing that a drop would give back.
    pub(super) unsafe fn land_now(&self, own: usize) -> ! {
        // SAFETY: by contract.
        unsafe { machine::land_now(self.base, own) }
    }
}

/// The function of the frames that end what is discarded.
pub(super) fn guard_address() -> usize {
    guard as *const () as usize
}

// Bits of `_Unwind_Action` and values of `_Unwind_Reason_Code` (Itanium C++ ABI: Exception Handling, 1.2.1 and 1.6.1).
const SEARCH_PHASE: c_int = 1;
const FORCED: c_int = 8;
const FATAL_IN_SEARCH: c_int = 3;
const CONTINUE: c_int = 8;

/// The personality routine of the guard's frame. An exception ends there: the thrower goes on as if nobody caught it, and calls
/// `std::terminate`. A forced unwind (pthread_exit(3)) passes, and the call is over.
///
/// # Safety
///
/// For the unwinder alone.
unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    unsafe extern "C" {
        fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    }
    if actions & FORCED == 0 {
        return if actions & SEARCH_PHASE != 0 { FATAL_IN_SEARCH } else { CONTINUE };
    }
    // SAFETY: the unwinder's own context.
    let stack = unsafe { _Unwind_GetCFA(context) };
    if inside::innermost().is_some_and(|frame| frame.kept.has_caller_at(stack)) {
        inside::end();
    }
    CONTINUE
}

#[cfg(test)]
mod tests {
    use super::super::{Contained, GuardEntry};
    use super::*;

    extern "C-unwind" fn sum(a: usize, b: usize) -> usize {
        assert!(inside::innermost().is_some_and(|frame| frame.is_whole()));
        a + 10 * b
    }

    extern "C-unwind" fn goes_home(_: usize, _: usize) -> usize {
        let frame = inside::innermost().unwrap();
        // SAFETY: the frame is this function's caller.
        unsafe { frame.land_now() }
    }

    #[test]
    fn a_call_returns_its_result_or_that_of_its_entry() {
        let contained = Contained::unlisted();
        let entry = |target: extern "C-unwind" fn(usize, usize) -> usize| {
            GuardEntry::new(target as *const () as usize, 77, &contained)
        };
        // SAFETY: the functions take two numbers.
        unsafe {
            assert_eq!(call_guarded(1, 2, &entry(sum)), 21);
            assert_eq!(call_guarded(1, 2, &entry(goes_home)), 77);
            assert!(inside::innermost().is_none());
            contained.note_crash();
            assert_eq!(call_guarded(1, 2, &entry(sum)), 77);
        }
    }
}

//! The machine's part of a boundary: the call of a guarded function, and the way back from a crash in it. x86-64 (System V
//! psABI).
//!
//! A guarded function jumps to [`guard`] with its [`GuardEntry`] in `r10`, the static chain. The guard keeps what the psABI has
//! a function preserve in a place off the stack ([`Kept`]), and calls the function. A handler of signals that discards the call's frames
//! continues the thread at [`landing`], with the guard's frame pointer and that place, and the guard returns what the entry
//! says. Nothing is unwound.
//!
//! ```text
//!   rbp + 8    return address
//!   rbp        rbp of the caller
//!   rbp - 8    the entry
//!   rbp - 16   arguments in registers; the results
//!   rbp - 64   the place off the stack, or UNNOTED
//!   rbp - 80   the stack pointer at the call
//! ```

use super::GuardEntry;
use super::contained::HAS_CRASHED;
use super::inside::{self, begin, end};
use std::arch::{asm, naked_asm};
use std::ffi::{c_int, c_void};

/// The distance of the stack pointer at the call from the guard's frame pointer, and of the one that [`landing`] begins with.
const AT_CALL: usize = 80;

/// All that a landing needs. The guard and the landing know the places of the first three.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Kept {
    /// rbx, r12, r13, r14, r15.
    registers: [usize; 5],
    /// The control words of SSE and x87.
    sse: u32,
    x87: u16,
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
        /// The flags of direction, of single steps and of alignment checks (Intel SDM 1, 3.4.3).
        const FLAGS: i64 = 0x400 | 0x100 | 0x4_0000;
        // SAFETY: by contract.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        registers[libc::REG_RIP as usize] = landing as *const () as i64;
        registers[libc::REG_RDI as usize] = own as i64;
        registers[libc::REG_RBP as usize] = self.base as i64;
        registers[libc::REG_RSP as usize] = (self.base - AT_CALL) as i64;
        registers[libc::REG_EFL as usize] &= !FLAGS;
    }

    /// The same without a signal, from the code that the frame has called.
    ///
    /// # Safety
    ///
    /// As for [`Kept::land`], for the calling thread. Its frames hold nothing that a drop would give back.
    pub(super) unsafe fn land_now(&self, own: usize) -> ! {
        // SAFETY: by contract; `landing` needs the frame pointer, and the stack pointer below what it uses.
        unsafe {
            asm!(
                "mov rbp, {base}",
                "lea rsp, [rbp - {below}]",
                "jmp {landing}",
                base = in(reg) self.base,
                in("rdi") own,
                below = const AT_CALL,
                landing = sym landing,
                options(noreturn),
            )
        }
    }
}

/// The function of the frames that end what is discarded.
pub(super) fn guard_address() -> usize {
    guard as *const () as usize
}

/// Calls `entry.target` with the arguments that it is called with, as described above.
///
/// # Safety
///
/// `r10` holds the address of a [`GuardEntry`] whose target takes these arguments: integers and pointers, all in registers.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn guard() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 80",
        "mov [rbp - 8], r10",
        "mov [rbp - 16], rdi",
        "mov [rbp - 24], rsi",
        "mov [rbp - 32], rdx",
        "mov [rbp - 40], rcx",
        "mov [rbp - 48], r8",
        "mov [rbp - 56], r9",
        "mov rdi, r10",
        "mov rsi, rbp",
        "call {begin}",
        "mov [rbp - 64], rax",
        "cmp rax, 1",
        "jbe 3f",
        "mov [rax], rbx",
        "mov [rax + 8], r12",
        "mov [rax + 16], r13",
        "mov [rax + 24], r14",
        "mov [rax + 32], r15",
        "stmxcsr [rax + 40]",
        "fnstcw [rax + 44]",
        "2:",
        "mov rdi, [rbp - 16]",
        "mov rsi, [rbp - 24]",
        "mov rdx, [rbp - 32]",
        "mov rcx, [rbp - 40]",
        "mov r8, [rbp - 48]",
        "mov r9, [rbp - 56]",
        "mov r11, [rbp - 8]",
        "call [r11]",
        // As `end`, which is called if there is more to do.
        "mov rcx, [rbp - 64]",
        "cmp rcx, 1",
        "je 4f",
        "mov rsi, [rcx + {inside}]",
        "test rsi, rsi",
        "jz 6f",
        "mov rdi, [rcx + {contained}]",
        "cmp byte ptr [rdi + {has_crashed}], 0",
        "jne 6f",
        "mov rdi, [rcx + {outer}]",
        "mov [rsi + {of}], rdi",
        "dec qword ptr [rsi + {depth}]",
        "4:",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_remember_state",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_restore_state",
        "6:",
        "mov [rbp - 16], rax",
        "mov [rbp - 24], rdx",
        "call {end}",
        "test al, al",
        "mov rax, [rbp - 16]",
        "mov rdx, [rbp - 24]",
        "jz 4b",
        "jmp 5f",
        "3:",
        "je 2b",
        "5:",
        "mov r11, [rbp - 8]",
        "mov rax, [r11 + 8]",
        "xor edx, edx",
        "jmp 4b",
        ".cfi_endproc",
        personality = sym personality,
        begin = sym begin,
        end = sym end,
        inside = const inside::INSIDE,
        contained = const inside::CONTAINED,
        outer = const inside::OUTER,
        of = const inside::OF,
        depth = const inside::DEPTH,
        has_crashed = const HAS_CRASHED,
    )
}

/// Continues the frame of a [`guard`] whose call has crashed, with its frame pointer and the address of its [`Kept`] in `rdi`.
#[unsafe(naked)]
unsafe extern "C" fn landing() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rbp, 16",
        ".cfi_offset rbp, -16",
        "mov rbx, [rdi]",
        "mov r12, [rdi + 8]",
        "mov r13, [rdi + 16]",
        "mov r14, [rdi + 24]",
        "mov r15, [rdi + 32]",
        "cld",
        "fninit",
        "fldcw [rdi + 44]",
        "ldmxcsr [rdi + 40]",
        "call {landed}",
        "call {end}",
        "mov r11, [rbp - 8]",
        "mov rax, [r11 + 8]",
        "xor edx, edx",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        landed = sym super::landed,
        end = sym end,
    )
}

/// Calls `entry.target(first, second)` through the guard.
///
/// # Safety
///
/// The target may be called so.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn call_guarded(
    first: usize,
    second: usize,
    entry: &GuardEntry,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "mov r10, rdx",
        "jmp {guard}",
        ".cfi_endproc",
        guard = sym guard,
    )
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
        end();
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

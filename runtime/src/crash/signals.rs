//! The fatal signals in words.

use std::ffi::c_int;
use std::fmt::{self, Write};

/// Those that a report is made of: faults of the code that runs, and `abort(3)`.
pub(super) const SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS];

/// The signal's name.
pub(super) fn name(signal: c_int) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGSYS => "SIGSYS",
        _ => "signal",
    }
}

// asm-generic/siginfo.h
const SEGV_MAPERR: c_int = 1;
const SEGV_ACCERR: c_int = 2;
const SI_KERNEL: c_int = 0x80;
const BUS_ADRALN: c_int = 1;
const BUS_ADRERR: c_int = 2;
const FPE_INTDIV: c_int = 1;

/// The signal's reason, of its description (sigaction(2), "The siginfo_t argument").
pub(super) fn describe(info: &libc::siginfo_t, into: &mut impl Write) -> fmt::Result {
    // SAFETY: the kernel has written the part of the description that belongs to the code.
    let (address, sender) = unsafe { (info.si_addr().addr(), info.si_pid()) };
    match (info.si_signo, info.si_code) {
        (libc::SIGABRT, libc::SI_TKILL) => write!(into, "the code has called abort or raise"),
        (_, ..=0) => write!(into, "process {sender} has sent it, code {}", info.si_code),
        (libc::SIGSEGV, SEGV_MAPERR) => write!(into, "no memory is mapped at {address:#x}"),
        (libc::SIGSEGV, SEGV_ACCERR) => write!(into, "no right to use the memory at {address:#x}"),
        (libc::SIGSEGV, SI_KERNEL) => write!(into, "an address that no memory can have"),
        (libc::SIGBUS, BUS_ADRALN) => write!(into, "a wrong alignment at {address:#x}"),
        (libc::SIGBUS, BUS_ADRERR) => {
            write!(into, "nothing is behind the memory at {address:#x}: its file may be shorter")
        }
        (libc::SIGFPE, FPE_INTDIV) => write!(into, "a division by zero at {address:#x}"),
        (libc::SIGFPE, _) => write!(into, "a calculation that fails at {address:#x}"),
        (libc::SIGILL, _) => write!(into, "no valid instruction at {address:#x}"),
        (libc::SIGSYS, _) => write!(into, "a filter has refused a system call at {address:#x}"),
        (_, code) => write!(into, "code {code}, address {address:#x}"),
    }
}

/// The address that the signal is about, if it has one.
pub(super) fn address(info: &libc::siginfo_t) -> Option<usize> {
    let has_one = info.si_code > 0 && info.si_signo != libc::SIGABRT;
    // SAFETY: the kernel has written the part of the description that belongs to a fault.
    has_one.then(|| unsafe { info.si_addr() }.addr())
}

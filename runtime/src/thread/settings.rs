//! Settings of a thread that code of an interpreter may change, given back when the visit ends.
//!
//! The module `faulthandler` gives the calling thread a stack for signals in the interpreter's memory (`sigaltstack` in
//! Modules/faulthandler.c): a handler that ran there after the interpreter's end would end the process. Code blocks
//! signals, renames its thread (Python from 3.14 on), and has denormal numbers flushed (torch). All that is the thread's,
//! not the interpreter's.
//!
//! The control words of floating point are in registers, so a visit reads them when it begins and when it ends. The rest
//! would take system calls. So a domain calls the C library by functions of ours, which note what stood there before.

use hydrozoa_loader::Interposition;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::marker::PhantomData;
use std::{mem, ptr};

/// The thread is in a visit: what its code changes is noted.
const VISITED: u8 = 1;
const STACK: u8 = 2;
const MASK: u8 = 4;
const NAME: u8 = 8;

thread_local! {
    /// [`VISITED`], and what of [`BEFORE`] is noted. Handlers of signals may write it.
    static NOTED: Cell<u8> = const { Cell::new(0) };
    /// The thread's settings when its innermost visit began.
    static BEFORE: Cell<Settings> = const { Cell::new(Settings::NONE) };
}

#[derive(Clone, Copy)]
struct Settings {
    stack: libc::stack_t,
    /// The first word of a set, which has all signals of the kernel.
    mask: u64,
    name: [c_char; 16],
}

impl Settings {
    const NONE: Self = Self {
        stack: libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 },
        mask: 0,
        name: [0; 16],
    };
}

/// A visit of the calling thread to an interpreter. Its drop restores the thread's former settings. Visits nest as
/// scopes do.
pub(crate) struct KeptSettings {
    floating: floating::Control,
    /// The notes of the visit around this one.
    noted: u8,
    before: Option<Box<Settings>>,
    _on_this_thread: PhantomData<*mut ()>,
}

impl KeptSettings {
    #[inline]
    pub(crate) fn begin() -> Self {
        let noted = NOTED.get();
        let before = (noted > VISITED).then(|| Box::new(BEFORE.get()));
        NOTED.set(VISITED);
        Self { floating: floating::Control::now(), noted, before, _on_this_thread: PhantomData }
    }
}

impl Drop for KeptSettings {
    #[inline]
    fn drop(&mut self) {
        self.floating.restore();
        let noted = NOTED.replace(self.noted);
        if noted > VISITED {
            give_back(noted);
        }
        if let Some(before) = self.before.take() {
            BEFORE.set(*before);
        }
    }
}

#[cold]
fn give_back(noted: u8) {
    let before = BEFORE.get();
    // SAFETY: each call gets back what it has told of the calling thread. A stack that the thread runs on just now stays.
    unsafe {
        if noted & STACK != 0 {
            libc::sigaltstack(&before.stack, ptr::null_mut());
        }
        if noted & NAME != 0 {
            libc::prctl(libc::PR_SET_NAME, before.name.as_ptr());
        }
        if noted & MASK != 0 {
            let mut mask: libc::sigset_t = mem::zeroed();
            ptr::from_mut(&mut mask).cast::<u64>().write(before.mask);
            libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut());
        }
    }
}

/// Notes what the calling thread has of one kind, if code of a visit is about to change it for the first time.
fn note(kind: u8) {
    let noted = NOTED.get();
    if noted & VISITED == 0 || noted & kind != 0 {
        return;
    }
    let mut before = BEFORE.get();
    // SAFETY: each call writes what it is asked for to a place of its size.
    unsafe {
        match kind {
            STACK => {
                libc::sigaltstack(ptr::null(), &mut before.stack);
            }
            NAME => {
                libc::prctl(libc::PR_GET_NAME, before.name.as_mut_ptr());
            }
            _ => {
                let mut mask: libc::sigset_t = mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask);
                before.mask = ptr::from_ref(&mask).cast::<u64>().read();
            }
        }
    }
    BEFORE.set(before);
    NOTED.set(noted | kind);
}

/// Notes the signals that the calling thread blocks, before code of an interpreter changes them.
pub(super) fn note_mask() {
    note(MASK);
}

/// The functions that answer for libc in the domain of an interpreter.
pub(crate) fn interpositions() -> [(&'static str, Interposition); 9] {
    // SAFETY: each function has the signature of its name in <signal.h>, <pthread.h> or <sys/prctl.h>, notes something and
    // calls it. That of prctl(2) is variadic: its arguments are words, passed in the registers of a function that is not (the
    // psABI differs in %al alone, which counts vector registers).
    let of = |function: *const c_void| unsafe { Interposition::function(function) };
    [
        ("sigaltstack", of(sigaltstack as *const c_void)),
        ("pthread_sigmask", of(pthread_sigmask as *const c_void)),
        ("sigprocmask", of(sigprocmask as *const c_void)),
        ("sighold", of(sighold as *const c_void)),
        ("sigrelse", of(sigrelse as *const c_void)),
        ("sigblock", of(sigblock as *const c_void)),
        ("sigsetmask", of(sigsetmask as *const c_void)),
        ("prctl", of(prctl as *const c_void)),
        ("pthread_setname_np", of(pthread_setname_np as *const c_void)),
    ]
}

unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    if !new.is_null() {
        note(STACK);
    }
    // SAFETY: the caller's call.
    unsafe { libc::sigaltstack(new, old) }
}

unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    if !new.is_null() {
        note(MASK);
    }
    // SAFETY: the caller's call.
    unsafe { libc::pthread_sigmask(how, new, old) }
}

unsafe extern "C" fn sigprocmask(
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    if !new.is_null() {
        note(MASK);
    }
    // SAFETY: the caller's call.
    unsafe { libc::sigprocmask(how, new, old) }
}

/// Functions that change the mask, which the crate `libc` lacks.
macro_rules! of_the_mask {
    ($($name:ident)*) => {
        mod c {
            unsafe extern "C" {
                $(pub(super) fn $name(number: std::ffi::c_int) -> std::ffi::c_int;)*
            }
        }

        $(extern "C" fn $name(number: c_int) -> c_int {
            note(MASK);
            // SAFETY: any mask may be set, and the wrong number of a signal is an error.
            unsafe { c::$name(number) }
        })*
    };
}

of_the_mask!(sighold sigrelse sigblock sigsetmask);

/// `prctl`.
///
/// # Safety
///
/// As prctl(2).
pub(crate) unsafe extern "C" fn prctl(
    option: c_int,
    first: c_ulong,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
) -> c_int {
    if option == libc::PR_SET_NAME {
        note(NAME);
    }
    // SAFETY: the caller's call.
    unsafe { libc::prctl(option, first, second, third, fourth) }
}

unsafe extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    // SAFETY: the caller's call.
    unsafe {
        if thread == libc::pthread_self() {
            note(NAME);
        }
        libc::pthread_setname_np(thread, name)
    }
}

#[cfg(target_arch = "x86_64")]
mod floating {
    use std::arch::asm;

    /// MXCSR and the control word of x87 (Intel SDM 1, 8.1.5 and 10.2.3).
    pub(super) struct Control {
        sse: u32,
        x87: u16,
    }

    /// The bits of MXCSR that say what has happened.
    const FLAGS: u32 = 0x3f;

    impl Control {
        #[inline]
        pub(super) fn now() -> Self {
            let (mut sse, mut x87) = (0, 0);
            // SAFETY: the instructions store to the places.
            unsafe {
                asm!(
                    "stmxcsr [{sse}]", "fnstcw [{x87}]",
                    sse = in(reg) &raw mut sse, x87 = in(reg) &raw mut x87,
                    options(nostack, preserves_flags),
                );
            }
            Self { sse, x87 }
        }

        #[inline]
        pub(super) fn restore(&self) {
            let now = Self::now();
            if (now.sse ^ self.sse) & !FLAGS != 0 || now.x87 != self.x87 {
                self.restore_from(&now);
            }
        }

        #[cold]
        fn restore_from(&self, now: &Self) {
            let sse = self.sse & !FLAGS | now.sse & FLAGS;
            // SAFETY: both words were read from the registers. `fnclex` clears what has happened: an exception that is
            // no longer masked would be raised by the next instruction of x87.
            unsafe {
                asm!(
                    "ldmxcsr [{sse}]", "fnclex", "fldcw [{x87}]",
                    sse = in(reg) &raw const sse, x87 = in(reg) &raw const self.x87,
                    options(nostack, preserves_flags),
                );
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod floating {
    use std::arch::asm;

    /// FPCR (Arm ARM, C5.2).
    pub(super) struct Control(u64);

    impl Control {
        #[inline]
        pub(super) fn now() -> Self {
            let word;
            // SAFETY: reads a register.
            unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack)) };
            Self(word)
        }

        #[inline]
        pub(super) fn restore(&self) {
            if Self::now().0 != self.0 {
                // SAFETY: the word was read from the register.
                unsafe { asm!("msr fpcr, {}", in(reg) self.0, options(nomem, nostack)) };
            }
        }
    }
}

//! Which operation a crash is of, and signals that the program handles itself.

use std::cell::Cell;
use std::ffi::c_int;
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};

static SEED: AtomicU64 = AtomicU64::new(0);
/// How often SIGUSR2 was handled.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread, and its operation's number and name.
    static OPERATION: Cell<(usize, u64, &'static str)> = const { Cell::new((usize::MAX, 0, "none")) };
}

/// Handles SIGUSR2, and says which operation a crash is of before the process ends by its signal.
pub fn install(seed: u64) -> Result<()> {
    SEED.store(seed, Ordering::Relaxed);
    handle(libc::SIGUSR2, count, libc::SA_RESTART)?;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        // After the handler the instruction is run again, with the signal's own effect.
        handle(signal, tell, libc::SA_ONSTACK | libc::SA_RESETHAND)?;
    }
    Ok(())
}

pub fn note(thread: usize, number: u64, name: &'static str) {
    OPERATION.set((thread, number, name));
}

pub fn signals() -> u64 {
    SIGNALS.load(Ordering::Relaxed)
}

fn handle(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) -> Result<()> {
    // SAFETY: zero is a value of every field.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the handlers do what handlers may do (signal-safety(7)): atomics, a variable that needs no initialization, and
    // write(2).
    let done = unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    ensure!(done == 0, "signal {signal} cannot be handled");
    Ok(())
}

extern "C" fn count(_: c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn tell(signal: c_int) {
    let (thread, number, name) = OPERATION.get();
    let mut text = [0; 200];
    let mut rest = &mut text[..];
    let seed = SEED.load(Ordering::Relaxed);
    // The rest is lost if it does not fit.
    let _ = match thread {
        usize::MAX => {
            writeln!(rest, "error: seed {seed}, signal {signal} on a thread without an operation")
        }
        _ => writeln!(
            rest,
            "error: seed {seed}, thread {thread}, operation {number} ({name}): signal {signal}"
        ),
    };
    let length = 200 - rest.len();
    // SAFETY: the bytes lie in the array.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length) };
}

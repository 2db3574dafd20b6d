//! The end of a python command in one of several interpreters.
//!
//! `sys.exit` in a program ends in `exit(3)`: `Py_RunMain` prints the exception, and printing a
//! `SystemExit` exits (`handle_system_exit`, Python/pythonrun.c). That is right in a process of its
//! own. Here it would end every other interpreter. So [`Exit`] answers `exit` in a command's domain and
//! records that the command has ended.
//!
//! A program that nothing saves from Ctrl-C ends by the signal: Python resets the signal and sends it to the process
//! (`exit_sigint`, Modules/main.c). If the commands share signals, that ends the command alone.
//!
//! A child that the command forks is a process of its own. It has the thread that forked and no other, so nobody
//! waits there for the command. The child's `exit` and its return from the command end the child.

use crate::shared_signals::Signals;
use crate::thread::process_identity::ProcessIdentity;
use crate::{Error, Result};
use hydrozoa_loader::Interposition;
use std::ffi::{c_int, c_void};
use std::io::{Write, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Where a command that runs on a thread of its own leaves its exit status.
pub(crate) struct Exit {
    outcome: Mutex<Option<Result<i32>>>,
    ended: Condvar,
    /// The process that waits for the command.
    process: ProcessIdentity,
    /// The command's signals, if it has its own.
    signals: Option<&'static Signals>,
}

/// Whether an interrupt has ended a command.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The status that shells give a process that SIGINT has ended, and Python a program.
const BY_INTERRUPT: c_int = 128 + libc::SIGINT;

impl Exit {
    /// Lives as long as the process, like the code that refers to it.
    pub(crate) fn new(signals: Option<&'static Signals>) -> &'static Self {
        Box::leak(Box::new(Self {
            signals,
            outcome: Mutex::new(None),
            ended: Condvar::new(),
            process: ProcessIdentity::current(),
        }))
    }

    /// The functions that answer for libc in the command's domain.
    pub(crate) fn interpositions(&'static self) -> Vec<(&'static str, Interposition)> {
        let context = std::ptr::from_ref(self).expose_provenance();
        // SAFETY: `exit(3)` takes one int and kill(2) two; the functions below take these and the address of an
        // `Exit`, which is never freed.
        let (exit, kill) = unsafe {
            (
                Interposition::with_context(exit as *const c_void, 1, context),
                Interposition::with_context(kill as *const c_void, 2, context),
            )
        };
        let signals = self.signals.map(Signals::interpositions).unwrap_or_default();
        let own = self.signals.map(|_| ("kill", kill));
        [("exit", exit)].into_iter().chain(own).chain(signals).collect()
    }

    /// Runs `command` on this thread and keeps what it returns, unless `exit` was called before.
    pub(crate) fn run(&self, command: impl FnOnce() -> Result<i32>) {
        let outcome = catch_unwind(AssertUnwindSafe(command))
            .unwrap_or_else(|panic| Err(Error::panicked(&*panic)));
        if self.is_in_child() {
            process::exit(outcome.unwrap_or_else(|error| {
                // A child without standard error has the status.
                drop(writeln!(stderr(), "{error}"));
                1
            }));
        }
        self.end(outcome);
    }

    /// Ends the command from inside. Its thread must not go on.
    fn leave(&self, status: c_int) -> ! {
        self.end(Ok(status));
        loop {
            thread::park();
        }
    }

    /// Whether this is a child of the process that waits. The lock may be held there by a thread that the child
    /// does not have.
    fn is_in_child(&self) -> bool {
        !self.process.is_current()
    }

    fn end(&self, outcome: Result<i32>) {
        if let Some(signals) = self.signals {
            signals.end();
        }
        let mut place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert(outcome);
        self.ended.notify_all();
    }

    /// Waits until the command has ended.
    pub(crate) fn wait(&self) -> Result<i32> {
        let mut place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = place.take() {
                return outcome;
            }
            place = self.ended.wait(place).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// `void exit(int)`, which does not return. The interpreter has been finalized by now (`Py_Exit`)
/// or its caller would not wait for that either; nothing may unwind the frames of C that lie
/// between here and the command, so this thread waits for the process's end.
extern "C" fn exit(status: c_int, context: usize) -> ! {
    // SAFETY: the context is the address of an `Exit` that is never freed.
    let exit = unsafe { &*std::ptr::with_exposed_provenance::<Exit>(context) };
    if exit.is_in_child() {
        process::exit(status);
    }
    // The system keeps the lowest byte (exit(3)).
    exit.leave(status & 0xff)
}

/// `kill(2)`.
extern "C" fn kill(process: libc::pid_t, signal: c_int, context: usize) -> c_int {
    // SAFETY: the context is the address of an `Exit` that is never freed.
    let exit = unsafe { &*std::ptr::with_exposed_provenance::<Exit>(context) };
    let by_default = exit.signals.is_some_and(|signals| signals.is_default(signal));
    let own = u32::try_from(process).is_ok_and(|process| process == process::id());
    if own && signal == libc::SIGINT && by_default && !exit.is_in_child() {
        INTERRUPTED.store(true, Ordering::Release);
        exit.leave(BY_INTERRUPT)
    }
    match exit.signals {
        Some(signals) => signals.kill(process, signal),
        // SAFETY: passed on.
        None => unsafe { libc::kill(process, signal) },
    }
}

/// Whether `status` is that of a command that an interrupt has ended.
pub(crate) fn is_by_interrupt(status: i32) -> bool {
    status == BY_INTERRUPT && INTERRUPTED.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::Exit;
    use crate::Error;

    #[test]
    fn what_a_command_returns_is_its_status() {
        let exit = Exit::new(None);
        exit.run(|| Ok(3));
        assert_eq!(exit.wait().ok(), Some(3));
    }

    #[test]
    fn a_panic_is_an_error() {
        let exit = Exit::new(None);
        exit.run(|| panic!("on purpose"));
        assert!(matches!(exit.wait(), Err(Error::Panic(text)) if text.starts_with("on purpose (")));
    }
}

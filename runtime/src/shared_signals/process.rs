//! The process's action for each signal, by what the commands have set.

use super::dispatch::dispatch;
use super::table::{COUNT, commands};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Signals that change nothing by default: one that waits is dropped with its handler.
const PASSES: [c_int; 4] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];

/// Held while the actions of the process change. They were these before the first command.
static BEFORE: Mutex<Option<Box<[libc::sigaction; COUNT]>>> = Mutex::new(None);

/// The signals whose dispatcher has stayed although no command has an action for them.
pub(super) static STAYS: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// Calls `action` with the actions that the process had before the first command. They do not change meanwhile.
pub(super) fn with_actions_before<R>(action: impl FnOnce(&[libc::sigaction; COUNT]) -> R) -> R {
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    action(before.get_or_insert_with(|| Box::new(std::array::from_fn(of_process))))
}

pub(super) fn is_function(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

/// The action of the process. Zero for an invalid signal number.
fn of_process(signal: usize) -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: writes one action, or leaves the zeroes, which are one too.
    unsafe {
        libc::sigaction(signal as c_int, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// Sets the action of the process for what the commands have set: the dispatcher if one of them has a handler, else
/// that the signal is ignored if one ignores it, else what was before them. A dispatcher stays if that was the default
/// action: the command that has taken its handler back may have a signal yet that was passed on to it, which would end
/// the process.
pub(super) fn settle(signal: usize) {
    with_actions_before(|before| settle_from(signal, before[signal]));
}

fn settle_from(signal: usize, before: libc::sigaction) {
    let set = |wanted: fn(usize) -> bool| {
        commands().any(|command| {
            let action = &command.actions[signal];
            action.is_set.load(Ordering::Acquire) && wanted(action.handler.load(Ordering::Acquire))
        })
    };
    let mut action = before;
    if set(is_function) {
        action.sa_sigaction = dispatcher();
        // CPython's too are on the thread's own stack for signals, and restart no call (PyOS_setsig).
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    } else if signal == libc::SIGCHLD as usize && set(|handler| handler == libc::SIG_IGN) {
        // The kernel would let every child of the process go, and the other commands wait for theirs.
        action.sa_sigaction = dispatcher();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    } else if set(|handler| handler == libc::SIG_IGN) {
        (action.sa_sigaction, action.sa_flags) = (libc::SIG_IGN, 0);
    } else if action.sa_sigaction == libc::SIG_DFL
        && !PASSES.contains(&(signal as c_int))
        && of_process(signal).sa_sigaction == dispatcher()
    {
        STAYS[signal].store(true, Ordering::Release);
        return;
    }
    STAYS[signal].store(false, Ordering::Release);
    // SAFETY: the action is a function for this, or one of the process's own.
    unsafe { libc::sigaction(signal as c_int, &action, ptr::null_mut()) };
}

pub(super) fn dispatcher() -> usize {
    dispatch as *const () as usize
}

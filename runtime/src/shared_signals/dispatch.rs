//! The process's handler of a signal, for the commands.

use super::process::{STAYS, is_function};
use super::relay::{is_passed_on, pass_on};
use super::table::{Signals, commands};
use hydrozoa_loader::{current, reap_ignored, thread_number};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

/// The process's handler of what some command handles.
///
/// # Safety
///
/// The kernel calls it (sigaction(2)).
pub(super) unsafe extern "C" fn dispatch(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes the description of the signal. Errno belongs to the code that is interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        if signal == libc::SIGCHLD {
            reap_ignored();
        }
        let is_passed_on = is_passed_on(&*info);
        let for_thread = is_passed_on || (*info).si_code == libc::SI_TKILL;
        let own = current::domain();
        let here = thread_number();
        // Of the kernel's own, about a child: each command has its children.
        let child = (signal == libc::SIGCHLD && (*info).si_code > 0).then(|| (*info).si_pid());
        // A command's timer, and a command that signals itself, name the command.
        let names = matches!((*info).si_code, libc::SI_TIMER | libc::SI_QUEUE);
        let named = names.then(|| (*info).si_value().sival_ptr.addr());
        let named = named.filter(|named| commands().any(|command| command.address() == *named));
        let concerns = |command: &&Signals| match (child, command.domain.get(), named) {
            (_, _, Some(named)) => command.address() == named,
            (Some(child), Some(domain), _) => hydrozoa_loader::concerns(child, *domain),
            _ => true,
        };
        let mut is_taken = false;
        for command in commands().filter(concerns) {
            let thread = command.thread.load(Ordering::Acquire);
            let is_own = own.is_some() && command.domain.get().copied() == own;
            if thread == here || is_own && (for_thread || command.is_in_child()) {
                is_taken |= command.handle(signal, info, context);
            } else if !for_thread && !command.is_in_child() && thread != 0 {
                let handler = command.actions[signal as usize].handler.load(Ordering::Acquire);
                if is_function(handler) {
                    is_taken = true;
                    pass_on(&*info, thread);
                }
            }
        }
        // The commands that have taken it may all have ended by now, and left the signal to its default action.
        if !is_taken && !is_passed_on && STAYS[signal as usize].load(Ordering::Acquire) {
            act_by_default(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// Does with the process what the signal does by default: its action is that one, and the signal comes again when its
/// handler returns.
///
/// # Safety
///
/// Called by the signal's handler.
unsafe fn act_by_default(signal: c_int) {
    // SAFETY: zero is the default action, with no flags. The calls are the kernel's.
    unsafe {
        let action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, ptr::null_mut());
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread_number(), signal);
    }
}

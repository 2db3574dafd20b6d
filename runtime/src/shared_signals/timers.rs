//! `alarm` and the timer of real time (setitimer(2)): the kernel has one for the process, and here each command has its own. It is
//! a POSIX timer, whose signal goes to the command's main thread and names the command.

use super::table::Signals;
use hydrozoa_loader::thread_number;
use std::ffi::{c_int, c_uint};
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering;

impl Signals {
    /// Makes the timer of the command whose main thread calls. Without one, its calls set the process's.
    pub(super) fn make_timer(&self) {
        // SAFETY: zero is a value of every field, and the kernel writes the number.
        unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = thread_number();
            event.sigev_signo = libc::SIGALRM;
            event.sigev_value.sival_ptr = ptr::with_exposed_provenance_mut(self.address());
            let mut timer: libc::timer_t = ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) == 0 {
                self.timer.store(timer.expose_provenance() + 1, Ordering::Release);
            }
        }
    }

    /// Ends the timer with the command.
    pub(super) fn drop_timer(&self) {
        if let Some(timer) = self.own_timer() {
            self.timer.store(0, Ordering::Release);
            // SAFETY: nothing uses it from now on: the command's code has ended.
            unsafe { libc::timer_delete(timer) };
        }
    }

    /// The command's timer. A child has none: it has its parent's number, and the timer of its own process.
    fn own_timer(&self) -> Option<libc::timer_t> {
        let number = self.timer.load(Ordering::Acquire).checked_sub(1)?;
        (!self.is_in_child()).then(|| ptr::with_exposed_provenance_mut(number))
    }

    /// The value by which a signal names the command.
    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self).expose_provenance()
    }
}

/// The command that a thunk's context refers to.
///
/// # Safety
/// `signals` is the address of a [`Signals`].
unsafe fn timer_of(signals: usize) -> Option<libc::timer_t> {
    // SAFETY: such a value is never freed.
    unsafe { &*ptr::with_exposed_provenance::<Signals>(signals) }.own_timer()
}

/// `setitimer(which, new, old)`.
///
/// # Safety
/// As setitimer(2); `signals` is the address of a [`Signals`].
pub(super) unsafe extern "C" fn setitimer(
    which: c_int,
    new: *const libc::itimerval,
    old: *mut libc::itimerval,
    signals: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let timer = timer_of(signals).filter(|_| which == libc::ITIMER_REAL);
        let Some(timer) = timer else { return libc::setitimer(which as _, new, old) };
        // Without a new value the timer is stopped (setitimer(2), "BUGS").
        let new = new.as_ref().copied().unwrap_or(mem::zeroed());
        let new = libc::itimerspec {
            it_interval: to_spec(new.it_interval),
            it_value: to_spec(new.it_value),
        };
        let mut before: libc::itimerspec = mem::zeroed();
        let status = libc::timer_settime(timer, 0, &new, &mut before);
        if status == 0 {
            old.as_mut().into_iter().for_each(|old| *old = to_value(before));
        }
        status
    }
}

/// `getitimer(which, value)`.
///
/// # Safety
/// As getitimer(2); `signals` is the address of a [`Signals`].
pub(super) unsafe extern "C" fn getitimer(
    which: c_int,
    value: *mut libc::itimerval,
    signals: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let timer = timer_of(signals).filter(|_| which == libc::ITIMER_REAL && !value.is_null());
        let Some(timer) = timer else { return libc::getitimer(which as _, value) };
        let mut now: libc::itimerspec = mem::zeroed();
        let status = libc::timer_gettime(timer, &mut now);
        *value = to_value(now);
        status
    }
}

/// `alarm(seconds)`, whose result is rounded as the kernel's (kernel/time/itimer.c, `alarm_setitimer`).
///
/// # Safety
/// `signals` is the address of a [`Signals`].
pub(super) unsafe extern "C" fn alarm(seconds: c_uint, signals: usize) -> c_uint {
    // SAFETY: zero is a value of every field; the rest is the caller's promise.
    unsafe {
        let mut new: libc::itimerval = mem::zeroed();
        let mut old: libc::itimerval = mem::zeroed();
        new.it_value.tv_sec = libc::time_t::from(seconds);
        if setitimer(libc::ITIMER_REAL as c_int, &new, &mut old, signals) != 0 {
            return 0;
        }
        let libc::timeval { tv_sec, tv_usec } = old.it_value;
        let rounds_up = tv_usec >= 500_000 || tv_sec == 0 && tv_usec > 0;
        tv_sec as c_uint + c_uint::from(rounds_up)
    }
}

fn to_spec(value: libc::timeval) -> libc::timespec {
    libc::timespec { tv_sec: value.tv_sec, tv_nsec: value.tv_usec * 1000 }
}

fn to_value(spec: libc::itimerspec) -> libc::itimerval {
    let one =
        |spec: libc::timespec| libc::timeval { tv_sec: spec.tv_sec, tv_usec: spec.tv_nsec / 1000 };
    libc::itimerval { it_interval: one(spec.it_interval), it_value: one(spec.it_value) }
}

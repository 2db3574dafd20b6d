//! Sleeping until one of several children ends.
//!
//! wait(2) cannot sleep for some children and not for others. poll(2) can, on a descriptor of each (pidfd_open(2), Linux 5.3).
//! It does not report a child that stops or goes on. For these, and where a descriptor is refused, the sleep is cut into
//! pieces of [`LONGEST`] at most.
//!
//! A signal handler ends wait(2), unless it was set with SA_RESTART. The thread takes signals in poll(2) alone, so none is
//! missed between two pieces.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::id::DomainId;
use crate::sys::domain_by_number::Slots;
use crate::sys::file::out_of_the_way;
use crate::sys::signals::{self, Blocked};

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);

/// The alarm clocks of threads that sleep, by descriptor.
static ALARMS: Slots = Slots::new();

/// Wakes the threads that sleep for children of the domain: it has another one.
pub(super) fn wake(domain: DomainId) {
    ALARMS.of(domain).for_each(ring);
}

pub(super) struct Sleep {
    domain: DomainId,
    blocked: Blocked,
    /// Readable when the domain has made another child. A program may close all descriptors, and a clock's call
    /// with another file's descriptor is an error that does nothing.
    alarm: Option<File>,
    /// Whether a child that stops or goes on ends it.
    for_stops: bool,
    /// The next piece.
    piece: Duration,
}

impl Sleep {
    pub(super) fn begin(domain: DomainId, blocked: Blocked, for_stops: bool) -> Sleep {
        // SAFETY: makes a descriptor.
        let alarm = owned(unsafe {
            libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK)
        });
        if let Some(alarm) = &alarm {
            ALARMS.add(alarm.as_raw_fd(), domain);
        }
        Sleep { domain, blocked, alarm, for_stops, piece: SHORTEST }
    }

    /// Sleeps until one of the children may have changed, or the domain has made another one.
    ///
    /// # Errors
    /// EINTR, as wait(2).
    pub(super) fn until_something_happens(
        &mut self,
        children: impl Iterator<Item = libc::pid_t>,
    ) -> Result<(), c_int> {
        let mut is_told = self.alarm.is_some() && !self.for_stops;
        let mut files = Vec::new();
        for child in children {
            // SAFETY: makes a descriptor.
            let made = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) };
            match owned(made as RawFd) {
                Some(file) => files.push(file),
                None => is_told = false,
            }
        }
        let limit = (!is_told).then_some(self.piece);
        self.piece = LONGEST.min(self.piece * 2);
        let all = files.iter().chain(&self.alarm);
        let mut awaited: Vec<libc::pollfd> = all
            .map(|file| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        let slept = self.blocked.sleep(&mut awaited, limit);
        self.alarm.iter().for_each(|alarm| set(alarm.as_raw_fd(), 0));
        match slept {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
                if signals::interrupt_calls() { Err(libc::EINTR) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(alarm) = &self.alarm {
            ALARMS.remove(alarm.as_raw_fd(), Some(self.domain));
        }
    }
}

fn ring(alarm: RawFd) {
    set(alarm, 1);
}

/// Lets a clock run out after so many nanoseconds, or never for 0, which makes it unreadable.
fn set(alarm: RawFd, nanoseconds: libc::c_long) {
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let time = libc::itimerspec {
        it_interval: none,
        it_value: libc::timespec { tv_nsec: nanoseconds, ..none },
    };
    // SAFETY: the time is valid. A number without a timer is an error.
    unsafe { libc::timerfd_settime(alarm, 0, &time, ptr::null_mut()) };
}

/// A descriptor that was just made, out of the program's way.
fn owned(made: RawFd) -> Option<File> {
    // SAFETY: nobody else has it.
    (made >= 0).then(|| out_of_the_way(unsafe { File::from_raw_fd(made) }))
}

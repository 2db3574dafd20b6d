//! The place where the thread of an event loop sleeps.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::{Duration, Instant};

/// Waits for an event loop, on the loop's thread and outside of the interpreter ([`Interpreter::event_loop_with`](crate::Interpreter::event_loop_with)).
///
/// By default the thread sleeps there. A host that has other work for it, such as the sockets of a server, does it in here: a request
/// that comes in then reaches Python without another thread.
pub trait Reactor: Send + 'static {
    /// Returns when the loop has something to do: `ready` is readable, or `limit` has passed, `None` being for ever.
    ///
    /// The loop also has something to do when this calls [`EventLoop::call_soon`](crate::EventLoop::call_soon) of the same loop. That makes
    /// nothing readable: return then, or the function waits.
    ///
    /// The descriptor is the same in each call, and becomes readable once for what comes: an edge-triggered poll suffices (epoll(7),
    /// `EPOLLET`). A call that returns too early costs little, a late one is late for the loop's timers. While the loop always has something to do,
    /// this is called every few milliseconds with a limit of zero. A panic ends the loop, as an end of the interpreter does.
    fn wait(&mut self, ready: BorrowedFd<'_>, limit: Option<Duration>);
}

/// Sleeps.
pub(super) struct Sleeper;

impl Reactor for Sleeper {
    fn wait(&mut self, ready: BorrowedFd<'_>, limit: Option<Duration>) {
        // Rounded up: a turn that comes too early finds nothing to do. Too far away for the clock is never.
        let until = limit.and_then(|limit| {
            Instant::now().checked_add(limit.saturating_add(Duration::from_micros(1)))
        });
        let mut wanted = libc::pollfd { fd: ready.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        loop {
            let left = until.map(|until| {
                let left = until.saturating_duration_since(Instant::now());
                libc::timespec {
                    tv_sec: left.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                    tv_nsec: left.subsec_nanos().into(),
                }
            });
            let limit = left.as_ref().map_or(ptr::null(), ptr::from_ref);
            // SAFETY: one description of a descriptor, a time or null, and no mask.
            let count = unsafe { libc::ppoll(&mut wanted, 1, limit, ptr::null()) };
            if count >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }
}

//! Waits for a descriptor of epoll(7), which a thread of the runtime does in its own way.
//!
//! An event loop of Python waits in the C library: asyncio's in `epoll_wait` (Modules/selectmodule.c), uvloop's in `epoll_pwait` (libuv,
//! src/unix/linux.c), both without the GIL. So the loop stays as it is, and the C library's functions are answered where its thread waits.

use crate::crash::contain;
use hydrozoa_loader::{Interposition, Process};
use libc::{epoll_event, sigset_t};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

/// Waits for one descriptor of epoll, on one thread.
pub(crate) trait Waiter {
    /// The descriptor.
    fn descriptor(&self) -> c_int;

    /// Whether to call [`Waiter::wait`] even if code that calls does not want to wait.
    fn is_due(&self) -> bool;

    /// Returns when something may be ready, or `limit` has passed, `None` being for ever. Called without the GIL. Returns a descriptor if it is to
    /// count as readable.
    fn wait(&self, limit: Option<Duration>) -> Option<c_int>;
}

thread_local! {
    static WAITER: Cell<Option<NonNull<Waiting<'static>>>> = const { Cell::new(None) };
}

/// A waiter, and the process whose thread it belongs to: a forked child waits in the kernel.
struct Waiting<'a> {
    waiter: &'a dyn Waiter,
    process: Process,
}

/// Runs `action`, in which waits of this thread are those of `waiter`.
pub(crate) fn waiting_by<R>(waiter: &dyn Waiter, action: impl FnOnce() -> R) -> R {
    struct Before(Option<NonNull<Waiting<'static>>>, PhantomData<*const ()>);
    impl Drop for Before {
        fn drop(&mut self) {
            WAITER.set(self.0);
        }
    }
    let waiting = Waiting { waiter, process: Process::current() };
    // Only `answered` uses it, on this thread and within `action`.
    let _before = Before(WAITER.replace(Some(NonNull::from(&waiting).cast())), PhantomData);
    action()
}

/// The functions that answer for libc in an interpreter's domain.
pub(crate) fn interpositions() -> [(&'static str, Interposition); 2] {
    // SAFETY: each function has the signature of its name in <sys/epoll.h>.
    let of = |function: *const c_void| unsafe { Interposition::function(function) };
    [
        ("epoll_wait", of(epoll_wait as *const c_void)),
        ("epoll_pwait", of(epoll_pwait as *const c_void)),
    ]
}

/// `epoll_wait(2)`.
unsafe extern "C" fn epoll_wait(
    descriptor: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { epoll_pwait(descriptor, events, room, timeout, ptr::null()) }
}

/// `epoll_pwait(2)`.
unsafe extern "C" fn epoll_pwait(
    descriptor: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise. The thread's note is there until its `waiting_by` returns, which is further up the stack.
    unsafe {
        let noted = WAITER.get().map(|noted| noted.as_ref());
        let own = noted.filter(|noted| {
            let is_its = noted.waiter.descriptor() == descriptor;
            is_its && room > 0 && mask.is_null() && noted.process.is_current()
        });
        match own {
            None => libc::epoll_pwait(descriptor, events, room, timeout, mask),
            Some(own) => {
                let count = answered(own.waiter, events, room, timeout);
                // This holds nothing any more.
                contain::depart();
                count
            }
        }
    }
}

/// Waits by `waiter`, and has the kernel tell what is ready.
///
/// # Safety
///
/// `events` has room for so many.
unsafe fn answered(
    waiter: &dyn Waiter,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
) -> c_int {
    // Below zero is for ever.
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    let due =
        limit.filter(|limit| !limit.is_zero()).and_then(|limit| Instant::now().checked_add(limit));
    let mut readable = if waiter.is_due() { waiter.wait(Some(Duration::ZERO)) } else { None };
    loop {
        // SAFETY: by contract.
        let count = unsafe { look(waiter.descriptor(), events, room, readable) };
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        if count != 0 || timeout == 0 || left.is_some_and(|left| left.is_zero()) {
            return count;
        }
        readable = waiter.wait(left);
    }
}

/// Asks the kernel for events that are ready, and adds that of a descriptor of which it does not know.
///
/// # Safety
///
/// As [`answered`].
unsafe fn look(
    descriptor: c_int,
    events: *mut epoll_event,
    room: c_int,
    readable: Option<c_int>,
) -> c_int {
    // SAFETY: by contract. `epoll_wait` takes no room of zero.
    unsafe {
        let Some(readable) = readable else { return libc::epoll_wait(descriptor, events, room, 0) };
        let mut count = 0;
        if room > 1 {
            count = libc::epoll_wait(descriptor, events, room - 1, 0).max(0);
        }
        // Both loops note the descriptor with its event.
        let event = epoll_event { events: libc::EPOLLIN as u32, u64: readable as u64 };
        events.add(count as usize).write(event);
        count + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Notes limits, and says that a descriptor is readable.
    struct Noting {
        descriptor: c_int,
        is_due: bool,
        limits: RefCell<Vec<Option<Duration>>>,
        readable: Cell<Option<c_int>>,
    }

    impl Waiter for Noting {
        fn descriptor(&self) -> c_int {
            self.descriptor
        }

        fn is_due(&self) -> bool {
            self.is_due
        }

        fn wait(&self, limit: Option<Duration>) -> Option<c_int> {
            self.limits.borrow_mut().push(limit);
            self.readable.take()
        }
    }

    #[test]
    fn a_thread_s_waiter_waits_for_its_descriptor_alone() {
        // SAFETY: descriptors of the test's own, and room for the events.
        unsafe {
            let [own, other] = [libc::epoll_create1(0), libc::epoll_create1(0)];
            let event = libc::eventfd(1, 0);
            let mut interest = epoll_event { events: libc::EPOLLIN as u32, u64: event as u64 };
            assert_eq!(libc::epoll_ctl(own, libc::EPOLL_CTL_ADD, event, &mut interest), 0);
            let mut events = [epoll_event { events: 0, u64: 0 }; 2];
            let mut wait = |descriptor, room, timeout| {
                let count = epoll_wait(descriptor, events.as_mut_ptr(), room, timeout);
                events[..usize::try_from(count).unwrap()]
                    .iter()
                    .map(|event| event.u64 as c_int)
                    .collect::<Vec<_>>()
            };
            let waiter = |is_due, readable| Noting {
                descriptor: own,
                is_due,
                limits: RefCell::default(),
                readable: Cell::new(readable),
            };
            let first = waiter(false, None);
            waiting_by(&first, || {
                assert_eq!(wait(other, 2, 0), []);
                // An event that is ready comes at once.
                assert_eq!(wait(own, 2, -1), [event]);
                assert!(first.limits.borrow().is_empty());
                let mut count = 0_u64;
                assert_eq!(libc::read(event, (&raw mut count).cast(), 8), 8);
                assert_eq!(wait(own, 2, 0), []);
                assert_eq!(wait(own, 2, 20), []);
                let limits = first.limits.borrow();
                assert!(limits.len() > 1, "it is asked until the time has passed");
                assert!(limits.iter().all(|limit| limit.unwrap() <= Duration::from_millis(20)));
            });
            // Its own descriptor counts beside the kernel's, as far as there is room.
            let second = waiter(true, Some(77));
            waiting_by(&second, || {
                assert_eq!(wait(own, 2, 0), [77]);
                assert_eq!(libc::eventfd_write(event, 1), 0);
                second.readable.set(Some(77));
                assert_eq!(wait(own, 2, 0), [event, 77]);
                second.readable.set(Some(77));
                assert_eq!(wait(own, 1, -1), [77]);
                assert_eq!(*second.limits.borrow(), [Some(Duration::ZERO); 3]);
            });
            assert_eq!(wait(own, 2, -1), [event], "the waiter is gone");
            for descriptor in [own, other, event] {
                libc::close(descriptor);
            }
        }
    }
}

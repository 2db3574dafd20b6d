//! The gate before all locks, which a fork closes.
//!
//! A thread counts in a place of its own how often it is inside: two plain stores and two loads of a call, and no word that
//! other threads write. The thread that closes the gate has the kernel order the memory accesses of all others (membarrier(2),
//! `MEMBARRIER_CMD_PRIVATE_EXPEDITED`). After that a thread either is seen inside, or sees that the gate is closed.
//!
//! If the kernel lacks or refuses this call, and for threads beyond the number of places, threads count in one common word
//! by atomic operations.

use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::thread::sleep;
use std::time::Duration;

use super::{HELD, fork, futex};
use crate::sys::thread;

/// How many threads without a place are inside, and [`CLOSED`].
static GATE: AtomicU32 = AtomicU32::new(0);

/// A thread forks: no other thread comes in.
const CLOSED: u32 = 1 << 31;

/// One thread's place. No two share a line of a cache.
#[repr(align(64))]
struct ThreadCount {
    /// The number of the thread that owns it, or 0.
    owner: AtomicU64,
    /// The kernel's id of that thread; 0 while a thread takes the place or is about to give it back.
    thread: AtomicI32,
    /// How often the thread is inside. The thread alone writes it; a signal handler leaves it as it was.
    inside: AtomicU32,
}

static PLACES: [ThreadCount; 512] = [const {
    ThreadCount { owner: AtomicU64::new(0), thread: AtomicI32::new(0), inside: AtomicU32::new(0) }
}; 512];

/// Where a thread counts. Once it is known it stays, so that a thread leaves where it has come in.
#[derive(Clone, Copy)]
enum Counts {
    /// Not known yet.
    Unknown,
    In(&'static ThreadCount),
    /// In [`GATE`].
    WithOthers,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts::Unknown) };
}

/// Passes the gate; waits while another thread forks.
#[inline]
pub(super) fn enter() {
    if let Counts::In(place) = COUNTS.get()
        && place.enter()
    {
        return;
    }
    enter_slowly();
}

#[cold]
fn enter_slowly() {
    if matches!(COUNTS.get(), Counts::Unknown) {
        COUNTS.set(ThreadCount::find().map_or(Counts::WithOthers, Counts::In));
    }
    loop {
        let is_inside = match COUNTS.get() {
            Counts::In(place) => place.enter(),
            _ => enter_with_others(),
        };
        if is_inside {
            return;
        }
        let state = GATE.load(Ordering::Relaxed);
        if state & CLOSED != 0 {
            futex::wait(&GATE, state);
        }
    }
}

/// Whether the thread has come in. It may fail spuriously.
fn enter_with_others() -> bool {
    let state = GATE.load(Ordering::Relaxed);
    let (order, failure) = (Ordering::Acquire, Ordering::Relaxed);
    state & CLOSED == 0 && GATE.compare_exchange_weak(state, state + 1, order, failure).is_ok()
}

#[inline]
pub(super) fn leave() {
    match COUNTS.get() {
        Counts::In(place) => place.leave(),
        _ => {
            if GATE.fetch_sub(1, Ordering::Release) & CLOSED != 0 {
                futex::wake(&GATE, futex::ALL);
            }
        }
    }
}

impl ThreadCount {
    /// Whether the thread has come in.
    #[inline]
    fn enter(&self) -> bool {
        self.inside.store(self.inside.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // The barrier of the thread that closes the gate makes the processor keep this order too.
        compiler_fence(Ordering::SeqCst);
        let is_open = GATE.load(Ordering::Acquire) & CLOSED == 0;
        if !is_open {
            self.leave();
        }
        is_open
    }

    #[inline]
    fn leave(&self) {
        self.inside.store(self.inside.load(Ordering::Relaxed) - 1, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        if GATE.load(Ordering::Relaxed) & CLOSED != 0 {
            futex::wake(&self.inside, futex::ALL);
        }
    }

    /// A place for the calling thread, if one is free and the kernel has the barrier.
    fn find() -> Option<&'static ThreadCount> {
        let number = fork::number();
        let take = |place: &&ThreadCount| {
            let taken =
                place.owner.compare_exchange(0, number, Ordering::Acquire, Ordering::Relaxed);
            // A signal handler may have taken it for this thread meanwhile.
            taken.is_ok() || taken == Err(number)
        };
        if !barrier::exists() {
            return None;
        }
        let found = PLACES.iter().find(take).or_else(|| {
            PLACES.iter().for_each(ThreadCount::give_back_if_gone);
            PLACES.iter().find(take)
        })?;
        found.thread.store(thread::number(), Ordering::Release);
        Some(found)
    }

    /// Gives the place back if its thread has ended. A thread does not do it itself: it would need a destructor of its own,
    /// and memory for that, in signal handlers too.
    fn give_back_if_gone(&self) {
        let thread = self.thread.load(Ordering::Acquire);
        // Signal 0 only asks for the thread. Another one may have the id by now: then the place is kept.
        let signal = || {
            // SAFETY: numbers only.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) }
        };
        let is_gone = thread != 0 && refused(signal) == Some(libc::ESRCH);
        // One thread only gives it back: the next owner writes its own id.
        let (order, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if is_gone && self.thread.compare_exchange(thread, 0, order, failure).is_ok() {
            self.owner.store(0, Ordering::Release);
        }
    }

    fn is_own(&self) -> bool {
        matches!(COUNTS.get(), Counts::In(place) if ptr::eq(place, self))
    }
}

/// Closes the gate and waits until nobody else is inside.
pub(super) fn close() {
    loop {
        let state = GATE.load(Ordering::Relaxed);
        if state & CLOSED != 0 {
            futex::wait(&GATE, state);
        } else if GATE
            .compare_exchange(state, state | CLOSED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            break;
        }
    }
    barrier::call();
    // A signal handler that forks may have interrupted this thread inside.
    for place in PLACES.iter().filter(|place| !place.is_own()) {
        loop {
            let inside = place.inside.load(Ordering::Acquire);
            if inside == 0 {
                break;
            }
            futex::wait(&place.inside, inside);
        }
    }
    loop {
        let state = GATE.load(Ordering::Acquire);
        if state & !CLOSED == own_with_others() {
            break;
        }
        futex::wait(&GATE, state);
    }
}

/// How often the calling thread is inside and counts in [`GATE`].
fn own_with_others() -> u32 {
    u32::from(HELD.get() != 0 && matches!(COUNTS.get(), Counts::WithOthers))
}

pub(super) fn open() {
    GATE.fetch_and(!CLOSED, Ordering::Release);
    futex::wake(&GATE, futex::ALL);
}

/// Opens it in the child of a fork, which has no other thread.
pub(super) fn open_in_child() {
    for place in &PLACES {
        if place.is_own() {
            place.thread.store(thread::number(), Ordering::Relaxed);
        } else {
            place.inside.store(0, Ordering::Relaxed);
            place.thread.store(0, Ordering::Relaxed);
            place.owner.store(0, Ordering::Relaxed);
        }
    }
    GATE.store(own_with_others(), Ordering::Release);
}

/// Orders this thread's memory accesses against those of all others: one of two threads sees the other if each writes, and then
/// reads what the other writes, and one of them calls this in between.
pub fn order_accesses() {
    if barrier::exists() {
        barrier::call();
    } else {
        // A processor holds no store back for so long.
        sleep(Duration::from_millis(1));
    }
}

/// The error with which the kernel refuses a call. errno stays: some callers replace functions that leave it alone.
fn refused(call: impl FnOnce() -> c_long) -> Option<c_int> {
    // SAFETY: the thread's own variable.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let error = (call() != 0).then(|| *errno);
        *errno = before;
        error
    }
}

/// membarrier(2).
mod barrier {
    use super::*;

    /// Of the kernel's linux/membarrier.h.
    const EXPEDITED: c_long = 1 << 3;
    const REGISTER: c_long = 1 << 4;

    fn is_done(command: c_long) -> bool {
        let call = || {
            // SAFETY: numbers only. It changes nothing but the order of memory accesses.
            unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
        };
        refused(call).is_none()
    }

    /// Whether the process may call it. The first answer stays.
    pub(super) fn exists() -> bool {
        const UNKNOWN: u8 = 0;
        static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
        if ANSWER.load(Ordering::Relaxed) == UNKNOWN {
            let answer = if is_done(REGISTER) && is_done(EXPEDITED) { 1 } else { 2 };
            let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            // Threads that ask at once must not go by different answers.
            let _ = ANSWER.compare_exchange(UNKNOWN, answer, order, failure);
        }
        ANSWER.load(Ordering::Relaxed) == 1
    }

    pub(super) fn call() {
        if !exists() || is_done(EXPEDITED) || is_done(REGISTER) && is_done(EXPEDITED) {
            return;
        }
        // The process has given up the right to it since (seccomp(2)). A processor holds no store back for so long.
        sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn nobody_is_inside_while_it_is_closed() {
        let (end, passed) = (AtomicBool::new(false), AtomicU64::new(0));
        // Plain stores, which a processor may keep back as it does those of the gate.
        let inside = [const { AtomicU32::new(0) }; 4];
        let mut found = 0;
        std::thread::scope(|scope| {
            for (number, inside) in inside.iter().enumerate() {
                let (end, passed) = (&end, &passed);
                scope.spawn(move || {
                    if number == 3 {
                        COUNTS.set(Counts::WithOthers);
                    }
                    while !end.load(Ordering::Relaxed) {
                        enter();
                        inside.store(1, Ordering::Relaxed);
                        std::hint::spin_loop();
                        inside.store(0, Ordering::Relaxed);
                        leave();
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..20_000 {
                close();
                for _ in 0..20 {
                    found +=
                        inside.iter().map(|inside| inside.load(Ordering::Relaxed)).sum::<u32>();
                }
                open();
            }
            end.store(true, Ordering::Relaxed);
        });
        assert_eq!(found, 0);
        assert!(passed.into_inner() > 0);
    }

    #[test]
    fn places_of_threads_that_have_ended_are_given_to_others() {
        for _ in 0..3 * PLACES.len() {
            std::thread::spawn(|| {
                super::super::undisturbed(|| ());
                assert!(matches!(COUNTS.get(), Counts::In(_)), "a place, or the kernel has none");
            })
            .join()
            .unwrap();
        }
    }
}

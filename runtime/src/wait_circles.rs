//! Threads that wait for what other threads make.
//!
//! A movable's copy and a storage on a device are made by one thread, while others that want the
//! same wait. Making one may need another that is being made. So two threads may come to
//! wait for each other, and a circle of them would wait for ever. The thread that would close the
//! circle gets an error instead.

use hydrozoa_loader::LeafLock;
use std::thread::{self, ThreadId};

/// A thing that is being made, by numbers that are unique meanwhile: addresses, say.
pub(crate) type Thing = (usize, usize);

/// A thread that waits, and the thread that makes what is waited for.
struct Wait {
    waiter: ThreadId,
    maker: ThreadId,
    thing: Thing,
}

static WAITS: LeafLock<Vec<Wait>> = LeafLock::new(Vec::new());

/// The calling thread waits for another one, until this is dropped.
#[must_use = "the thread counts as waiting until this is dropped"]
pub(crate) struct Waiting(());

/// Notes that the calling thread is about to wait for `maker` to make `thing`. `None` if that is the
/// thread itself, or waits for it, directly or not.
///
/// The caller holds the lock under which `maker` would say that it has made the thing.
pub(crate) fn wait_for(maker: ThreadId, thing: Thing) -> Option<Waiting> {
    let own = thread::current().id();
    WAITS.with(|waits| {
        let mut next = Some(maker);
        while let Some(thread) = next {
            if thread == own {
                return None;
            }
            next = waits.iter().find(|wait| wait.waiter == thread).map(|wait| wait.maker);
        }
        waits.push(Wait { waiter: own, maker, thing });
        Some(Waiting(()))
    })
}

/// Nobody waits for the thing any more, although not all may have woken up: its maker has made it, or
/// has failed to, and may itself wait for one of them next.
pub(crate) fn made(thing: Thing) {
    WAITS.with(|waits| waits.retain(|wait| wait.thing != thing));
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let own = thread::current().id();
        WAITS.with(|waits| waits.retain(|wait| wait.waiter != own));
    }
}

#[cfg(test)]
mod tests {
    use super::{made, wait_for};
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;

    #[test]
    fn a_circle_of_three_threads_is_refused_to_the_one_that_would_close_it() {
        let own = thread::current().id();
        assert!(wait_for(own, (0, 0)).is_none());
        let leave = Arc::new(Barrier::new(3));
        let (tell, told) = mpsc::channel();
        let waiter = |maker, thing| {
            let (leave, tell) = (leave.clone(), tell.clone());
            let thread = thread::spawn(move || {
                let waiting = wait_for(maker, thing);
                tell.send(waiting.is_some()).unwrap();
                leave.wait();
            });
            assert!(told.recv().unwrap());
            thread
        };
        // The second waits for the first, which waits for this one.
        let first = waiter(own, (1, 0));
        let second = waiter(first.thread().id(), (2, 0));
        assert!(wait_for(first.thread().id(), (3, 0)).is_none());
        assert!(wait_for(second.thread().id(), (3, 0)).is_none());
        // The first no longer waits for what this one has made, although it still sleeps.
        made((1, 0));
        assert!(wait_for(second.thread().id(), (3, 0)).is_some());
        leave.wait();
        first.join().unwrap();
        second.join().unwrap();
    }
}

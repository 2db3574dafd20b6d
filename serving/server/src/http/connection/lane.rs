//! A share of the connections, and the thread that serves it.
//!
//! Each lane has a runtime of its own, and a connection stays with its lane. In a runtime shared by several threads, a task that
//! wakes itself wakes another thread too, which finds nothing to do. hyper's tasks wake themselves for each piece of a body,
//! and a body of 1 MiB comes in sixteen.
//!
//! One thread at a time serves a lane: the lane's own, or a guest ([`Guest`]). A guest has something else to wait for, and serves
//! while it waits. So a request that is for the guest comes to it without another thread. A guest that works does not serve. Where
//! its work takes longer than a moment, and where there is no guest, the lane's own thread serves.

use super::guest::Guest;
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// The own thread serves when a guest has worked for so long, or for twice as long at most.
const TICK: Duration = Duration::from_millis(10);

/// Ticks without a change, after which the own thread sleeps until a guest wakes it.
const QUIET: u32 = 100;

/// A share of the connections. A handle: clones are of the same one. Its tasks end with the last handle or guest.
#[derive(Clone)]
pub struct Lane(Arc<Shared>);

struct Shared {
    /// `None` at the end.
    runtime: Option<Runtime>,
    /// Guests that wait, and so serve. Where there are several, tokio has one of them serve.
    waiting: AtomicUsize,
    /// Counts when waits begin and end.
    changes: AtomicU64,
    own: OnceLock<Thread>,
    /// Whether the own thread serves. It is `relieved` when a guest comes, or all ends.
    own_serves: AtomicBool,
    relieved: Notify,
    /// Whether the own thread sleeps until a guest leaves.
    own_sleeps: AtomicBool,
    is_ending: AtomicBool,
    later: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lane").field("is_served", &self.0.is_served()).finish()
    }
}

impl Lane {
    pub(super) fn new() -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().thread_name("http work").build()?;
        Ok(Self(Arc::new(Shared {
            runtime: Some(runtime),
            waiting: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            own: OnceLock::new(),
            own_serves: AtomicBool::new(true),
            relieved: Notify::new(),
            own_sleeps: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            later: Mutex::default(),
        })))
    }

    pub(super) fn runtime(&self) -> &Handle {
        self.0.runtime().handle()
    }

    /// A guest, which also waits for `descriptor`: it must become readable once for what comes (epoll(7), `EPOLLET`).
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn guest(&self, descriptor: OwnedFd) -> io::Result<Guest> {
        Guest::new(self.clone(), descriptor)
    }

    /// Calls a function on the thread that serves next: at once, if one serves. It need not be woken for it, as it must be for what
    /// becomes ready while nobody serves.
    pub fn later(&self, function: impl FnOnce() + Send + 'static) {
        let shared = &*self.0;
        {
            let mut later = shared.later.lock();
            if !shared.is_served() {
                later.push(Box::new(function));
                return;
            }
        }
        function();
    }

    /// Serves on this thread until `future` is ready, as a guest.
    pub(super) fn serve_until<T>(&self, future: impl Future<Output = T>) -> T {
        let shared = &*self.0;
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        shared.changes.fetch_add(1, Ordering::SeqCst);
        if shared.own_serves.load(Ordering::SeqCst) {
            shared.relieved.notify_one();
        }
        let _leaving = Leaving(shared);
        shared.runtime().block_on(async {
            shared.catch_up();
            future.await
        })
    }

    /// The work of the own thread.
    pub(super) fn own_thread(&self) {
        let shared = &*self.0;
        // Nobody sets it a second time.
        let _ = shared.own.set(thread::current());
        while !shared.ends() {
            shared.own_serves.store(true, Ordering::SeqCst);
            shared.runtime().block_on(async {
                shared.catch_up();
                while shared.waiting.load(Ordering::SeqCst) == 0 && !shared.ends() {
                    shared.relieved.notified().await;
                }
            });
            shared.own_serves.store(false, Ordering::SeqCst);
            shared.look_on();
        }
    }

    /// Has the own thread end.
    pub(super) fn end(&self) {
        let shared = &*self.0;
        shared.is_ending.store(true, Ordering::SeqCst);
        shared.relieved.notify_one();
        if let Some(own) = shared.own.get() {
            own.unpark();
        }
    }
}

/// A guest whose wait ends when this is dropped.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::SeqCst);
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        if self.0.own_sleeps.swap(false, Ordering::SeqCst)
            && let Some(own) = self.0.own.get()
        {
            own.unpark();
        }
    }
}

impl Shared {
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a lane has its runtime until it is dropped")
    }

    fn ends(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    fn is_served(&self) -> bool {
        self.own_serves.load(Ordering::SeqCst) || self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Calls the functions that were left for the thread that serves.
    fn catch_up(&self) {
        let functions = mem::take(&mut *self.later.lock());
        functions.into_iter().for_each(|function| function());
    }

    /// Waits until nobody has served for a moment.
    fn look_on(&self) {
        let mut seen = self.changes.load(Ordering::SeqCst);
        let mut quiet = 0;
        while !self.ends() {
            thread::park_timeout(TICK);
            let changes = self.changes.load(Ordering::SeqCst);
            if changes != seen {
                (seen, quiet) = (changes, 0);
                continue;
            }
            if self.waiting.load(Ordering::SeqCst) == 0 {
                return;
            }
            quiet += 1;
            if quiet > QUIET {
                self.own_sleeps.store(true, Ordering::SeqCst);
                // A guest that has left before did not see that.
                while self.changes.load(Ordering::SeqCst) == seen && !self.ends() {
                    thread::park();
                }
                self.own_sleeps.store(false, Ordering::SeqCst);
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped on a thread that must not wait.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::ThreadId;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    /// A lane whose own thread ends with it.
    struct Owned(Lane, Option<thread::JoinHandle<()>>);

    impl Owned {
        fn start() -> Self {
            let lane = Lane::new().unwrap();
            let own = lane.clone();
            Self(lane, Some(thread::spawn(move || own.own_thread())))
        }

        fn own(&self) -> ThreadId {
            self.1.as_ref().unwrap().thread().id()
        }

        fn guest(&self) -> (Guest, OwnedFd) {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
            (self.0.guest(event.try_clone().unwrap()).unwrap(), event)
        }

        /// The thread that serves a task which is spawned now.
        fn server(&self) -> Receiver<ThreadId> {
            let (sender, receiver) = channel();
            self.0.runtime().spawn(async move { sender.send(thread::current().id()) });
            receiver
        }
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.end();
            self.1.take().unwrap().join().unwrap();
        }
    }

    #[test]
    fn a_guest_serves_while_it_waits_and_the_own_thread_while_it_works() {
        let lane = Owned::start();
        assert_eq!(lane.server().recv_timeout(LONG), Ok(lane.own()), "there is no guest");
        let (mut guest, _event) = lane.guest();
        // The last time, the own thread has gone to sleep.
        for pause in [1, 50, 1500].map(Duration::from_millis) {
            guest.wait(Some(pause)).unwrap();
            let until = Instant::now() + LONG;
            loop {
                let served = lane.server();
                guest.wait(Some(Duration::from_millis(1))).unwrap();
                // The own thread may have been there first.
                if served.recv_timeout(LONG) == Ok(thread::current().id()) {
                    break;
                }
                assert!(Instant::now() < until, "the guest never serves");
            }
            assert_eq!(lane.server().recv_timeout(LONG), Ok(lane.own()), "the guest works");
        }
    }

    #[test]
    fn a_wait_ends_for_its_descriptor_its_bell_and_its_limit() {
        let lane = Owned::start();
        let (mut guest, event) = lane.guest();
        let limit = Duration::from_millis(20);
        for _ in 0..3 {
            let began = Instant::now();
            guest.wait(Some(limit)).unwrap();
            assert!(began.elapsed() >= limit);
            // The limit of an earlier wait may end this one, but no later one.
            guest.bell().ring();
            guest.wait(None).unwrap();
        }
        rustix::io::write(&event, &1_u64.to_ne_bytes()).unwrap();
        guest.wait(None).unwrap();
        // It is readable still, and was so before.
        let began = Instant::now();
        guest.wait(Some(limit)).unwrap();
        assert!(began.elapsed() >= limit);
        let bell = guest.bell();
        let ringing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            bell.ring();
        });
        guest.wait(None).unwrap();
        ringing.join().unwrap();
    }

    #[test]
    fn a_function_is_called_by_the_thread_that_serves_next() {
        let lane = Owned::start();
        let (mut guest, _event) = lane.guest();
        let call = || {
            let (sender, receiver) = channel();
            lane.0.later(move || sender.send(thread::current().id()).unwrap());
            receiver
        };
        // Somebody serves.
        assert!(call().recv_timeout(LONG).is_ok());
        guest.wait(Some(Duration::from_millis(50))).unwrap();
        let called = call();
        guest.wait(Some(Duration::ZERO)).unwrap();
        assert!(called.recv_timeout(LONG).is_ok());
        // Nobody does, until the own thread comes.
        guest.wait(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(call().recv_timeout(LONG), Ok(lane.own()));
    }
}

//! Event loops whose threads serve connections while they wait, and the worker that a request meets on such a thread.

use hydrozoa::Reactor;
use hydrozoa_server::http::{Bell, Guest, Lane};
use std::cell::OnceCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// How often a loop looks for work whose thread cannot wait.
const LOOK: Duration = Duration::from_millis(10);

thread_local! {
    /// The loop of the thread.
    static LOCAL: OnceCell<Local> = const { OnceCell::new() };
}

/// A loop, as its thread has it.
struct Local {
    id: LoopId,
    lane: Lane,
    bell: Bell,
}

/// One event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopId(u64);

impl LoopId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The loop that the calling thread runs.
    pub(crate) fn local() -> Option<Self> {
        LOCAL.with(|local| local.get().map(|local| local.id))
    }

    /// Has a loop go on that got a call. Another thread's does so by itself.
    pub(crate) fn was_called(self) {
        LOCAL.with(|local| {
            if let Some(local) = local.get()
                && local.id == self
            {
                local.bell.ring();
            }
        });
    }
}

/// Calls a function that wakes the task of a connection. On the thread of a loop that is when it serves again.
pub(crate) fn when_served(function: impl FnOnce() + Send + 'static) {
    let lane = LOCAL.with(|local| local.get().map(|local| local.lane.clone()));
    match lane {
        Some(lane) => lane.later(function),
        None => function(),
    }
}

/// Serves the connections of a lane while a loop waits.
pub(crate) struct Serving {
    lane: Lane,
    id: LoopId,
    guest: Option<Guest>,
}

impl Serving {
    pub(crate) fn new(lane: Lane, id: LoopId) -> Self {
        Self { lane, id, guest: None }
    }

    fn guest(&mut self, ready: BorrowedFd<'_>) -> io::Result<&mut Guest> {
        let guest = match self.guest.take() {
            Some(guest) => guest,
            None => {
                let guest = self.lane.guest(ready.try_clone_to_owned()?)?;
                let (id, lane, bell) = (self.id, self.lane.clone(), guest.bell());
                // The thread has no other loop.
                LOCAL.with(|local| drop(local.set(Local { id, lane, bell })));
                guest
            }
        };
        Ok(self.guest.insert(guest))
    }
}

impl Reactor for Serving {
    fn wait(&mut self, ready: BorrowedFd<'_>, limit: Option<Duration>) {
        if let Err(error) = self.guest(ready).and_then(|guest| guest.wait(limit)) {
            tracing::warn!("an event loop cannot wait among connections: {error}");
            thread::sleep(limit.map_or(LOOK, |limit| limit.min(LOOK)));
        }
    }
}

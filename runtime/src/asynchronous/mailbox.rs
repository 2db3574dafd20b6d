//! Numbers for an event loop, which any thread sends without the loop's GIL.

use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use hydrozoa_loader::LeafLock;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// All mailboxes, by their numbers: Python code names one by its number.
static MAILBOXES: LeafLock<BTreeMap<u64, Weak<Mailbox>>> = LeafLock::new(BTreeMap::new());

/// The number of the next mailbox.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Messages to one event loop that it has not yet taken.
pub(super) struct Mailbox {
    number: u64,
    /// An eventfd. It is readable while there is something to take.
    event: File,
    letters: LeafLock<Letters>,
}

#[derive(Debug, Default)]
struct Letters {
    /// Tasks to start.
    starts: Vec<u64>,
    /// Tasks to cancel. None of them is started later.
    cancels: Vec<u64>,
    /// Futures to poll again.
    wakes: Vec<u64>,
}

impl Letters {
    fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.cancels.is_empty() && self.wakes.is_empty()
    }
}

impl Mailbox {
    pub(super) fn new() -> Result<Arc<Self>> {
        let event = event()
            .map_err(|source| Error::Io { path: "the eventfd of an event loop".into(), source })?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Self { number, event, letters: LeafLock::default() });
        let weak = Arc::downgrade(&mailbox);
        MAILBOXES.with(|mailboxes| mailboxes.insert(number, weak));
        Ok(mailbox)
    }

    /// The mailbox with this number, if it exists.
    pub(super) fn find(number: u64) -> Option<Weak<Self>> {
        MAILBOXES.with(|mailboxes| mailboxes.get(&number).cloned())
    }

    /// Its number, its descriptor, and the function that takes what was sent. The function keeps the mailbox.
    pub(super) fn for_python<'s>(
        self: &Arc<Self>,
        session: &'s Session,
    ) -> Result<(u64, i32, Object<'s>)> {
        let own = self.clone();
        let take = session.function("take", move |session, _| {
            let Letters { starts, cancels, wakes } = own.take();
            session.object_from(&(starts, cancels, wakes))
        })?;
        Ok((self.number, self.event.as_raw_fd(), take))
    }

    pub(super) fn start(&self, task: u64) {
        self.send(|letters| letters.starts.push(task));
    }

    pub(super) fn cancel(&self, task: u64) {
        self.send(|letters| letters.cancels.push(task));
    }

    pub(super) fn wake(&self, future: u64) {
        self.send(|letters| letters.wakes.push(future));
    }

    fn send(&self, add: impl FnOnce(&mut Letters)) {
        let was_empty = self.letters.with(|letters| {
            let was_empty = letters.is_empty();
            add(letters);
            was_empty
        });
        if was_empty {
            self.ring();
        }
    }

    /// Has the loop look.
    pub(super) fn ring(&self) {
        // It fails only where the descriptor is readable for a long time.
        let _ = (&self.event).write(&1_u64.to_ne_bytes());
    }

    fn take(&self) -> Letters {
        // Before looking at the letters: one sent after that look makes the descriptor readable again. It fails if
        // it was not readable.
        let _ = (&self.event).read(&mut [0; 8]);
        self.letters.with(std::mem::take)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        MAILBOXES.with(|mailboxes| mailboxes.remove(&self.number));
    }
}

fn event() -> io::Result<File> {
    // SAFETY: no precondition.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new, and nobody else has it.
        descriptor => Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })),
    }
}

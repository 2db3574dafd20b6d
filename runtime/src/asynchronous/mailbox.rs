//! Numbers for an event loop, which any thread sends without the loop's GIL.

use crate::object::Object;
use crate::panics::contained;
use crate::session::Session;
use crate::{Error, Result};
use hydrozoa_loader::LeafLock;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// All mailboxes, by their numbers: Python code names one by its number.
static MAILBOXES: LeafLock<BTreeMap<u64, Weak<Mailbox>>> = LeafLock::new(BTreeMap::new());

/// The number of the next mailbox.
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The mailbox of the loop that waits on this thread.
    static WAITING: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Messages to one event loop that it has not yet taken.
pub(super) struct Mailbox {
    number: u64,
    /// An eventfd. It is readable while there is something to take.
    event: File,
    letters: LeafLock<Letters>,
    /// The loop looks next because it was told to, and not for the descriptor.
    is_told: AtomicBool,
}

/// Work for the loop's thread.
pub(super) type Call = Box<dyn FnOnce(&Session) + Send>;

#[derive(Default)]
struct Letters {
    /// No call is taken any more.
    is_closed: bool,
    /// The descriptor is readable for letters, or is being made so.
    is_rung: bool,
    /// Functions of the host to call.
    calls: Vec<Call>,
    /// Tasks to start.
    starts: Vec<u64>,
    /// Tasks to cancel. None of them is started later.
    cancels: Vec<u64>,
    /// Futures to poll again.
    wakes: Vec<u64>,
}

impl Letters {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.have_none_for_python()
    }

    fn have_none_for_python(&self) -> bool {
        self.starts.is_empty() && self.cancels.is_empty() && self.wakes.is_empty()
    }
}

impl Mailbox {
    pub(super) fn new() -> Result<Arc<Self>> {
        let event = event()
            .map_err(|source| Error::Io { path: "the eventfd of an event loop".into(), source })?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Self {
            number,
            event,
            letters: LeafLock::default(),
            is_told: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&mailbox);
        MAILBOXES.with(|mailboxes| mailboxes.insert(number, weak));
        Ok(mailbox)
    }

    /// The mailbox with this number, if it exists.
    pub(super) fn find(number: u64) -> Option<Weak<Self>> {
        MAILBOXES.with(|mailboxes| mailboxes.get(&number).cloned())
    }

    /// Its number, its descriptor, and the function that makes the calls and gives the rest of what was sent. It keeps the mailbox.
    pub(super) fn for_python<'s>(
        self: &Arc<Self>,
        session: &'s Session,
    ) -> Result<(u64, i32, Object<'s>)> {
        let own = self.clone();
        let take = session.function("take", move |session, _| {
            // SAFETY: attached; the loop calls this by itself, and nothing is held.
            unsafe { (session.inner().table().catch_up)() };
            let mut letters =
                own.take().ok_or_else(|| Error::raise("SystemError", "the event loop ends"))?;
            for call in std::mem::take(&mut letters.calls) {
                if let Err(text) = contained(|| call(session)) {
                    tracing::error!(
                        interpreter = %session.interpreter().name(),
                        "a function that its event loop was to call has panicked: {text}"
                    );
                }
            }
            if letters.have_none_for_python() {
                return session.none();
            }
            session.object_from(&(letters.starts, letters.cancels, letters.wakes))
        })?;
        Ok((self.number, self.event.as_raw_fd(), take))
    }

    /// Has the loop's thread call this. Gives it back if the loop has ended.
    pub(super) fn call(&self, call: Call) -> Option<Call> {
        let mut call = Some(call);
        let add = |letters: &mut Letters| {
            if !letters.is_closed {
                letters.calls.extend(call.take());
            }
        };
        match WAITING.get() == Some(self.number) {
            true => self.letters.with(add),
            false => self.send(add),
        }
        call
    }

    /// Whether there are letters of which the descriptor does not tell.
    pub(super) fn has_silent(&self) -> bool {
        self.letters.with(|letters| !letters.is_empty() && !letters.is_rung)
    }

    /// Its descriptor, which the loop is told next to be readable.
    pub(super) fn tell(&self) -> RawFd {
        self.is_told.store(true, Ordering::Relaxed);
        self.event.as_raw_fd()
    }

    /// Runs `wait` on the loop's thread. Calls that are sent within it do not make the descriptor readable.
    pub(super) fn while_waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        struct Waited;
        impl Drop for Waited {
            fn drop(&mut self) {
                WAITING.set(None);
            }
        }
        WAITING.set(Some(self.number));
        let _waited = Waited;
        wait()
    }

    /// Takes no further calls, and gives those that were not made.
    pub(super) fn close(&self) -> Vec<Call> {
        self.letters.with(|letters| {
            letters.is_closed = true;
            std::mem::take(&mut letters.calls)
        })
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
        let rings = self.letters.with(|letters| {
            add(letters);
            let rings = !letters.is_rung && !letters.is_empty();
            letters.is_rung |= rings;
            rings
        });
        if rings {
            self.make_readable();
        }
    }

    /// Has the loop look.
    pub(super) fn ring(&self) {
        self.letters.with(|letters| letters.is_rung = true);
        self.make_readable();
    }

    fn make_readable(&self) {
        // It fails only where the descriptor is readable for a long time.
        let _ = (&self.event).write(&1_u64.to_ne_bytes());
    }

    /// Takes all that was sent, unless this is closed.
    fn take(&self) -> Option<Letters> {
        // Before the letters are taken: one that is sent after that makes the descriptor readable again. Where it is readable, too, the loop looks
        // once more.
        if !self.is_told.swap(false, Ordering::Relaxed) {
            let _ = (&self.event).read(&mut [0; 8]);
        }
        self.letters.with(|letters| {
            let is_closed = letters.is_closed;
            let taken = std::mem::replace(letters, Letters { is_closed, ..Letters::default() });
            (!is_closed).then_some(taken)
        })
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

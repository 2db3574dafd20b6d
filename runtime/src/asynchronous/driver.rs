//! The thread of an event loop. It runs the loop, and waits outside of the interpreter.
//!
//! The loop is Python's own, asyncio's or another one's that waits by epoll(7). Its waits are answered here ([`Waits`]): the thread steps out of the
//! interpreter, which can be settled meanwhile, and a host that has other work for the thread does it there ([`Reactor`]).

use super::Shared;
use super::job::caught;
use super::reactor::{Reactor, Sleeper};
use crate::interpreter::Residence;
use crate::object::Object;
use crate::payload::Sink;
use crate::payload::table::{CallArguments, Handle, Kind, TaggedValue, Text};
use crate::session::Session;
use crate::thread::waits::{Waiter, waiting_by};
use crate::{Error, Result};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the loop works while there is always something to do, until the host has its turn.
const SHARE: Duration = Duration::from_millis(2);

/// A loop of Python, as its thread has it.
struct Driven<'a> {
    residence: &'a Residence,
    /// The object of Python, until it was released.
    object: LoopObject,
}

/// An owned reference to the loop's object of Python.
struct LoopObject(Handle);

// SAFETY: an address, which is used under the interpreter's GIL alone.
unsafe impl Send for LoopObject {}

/// The waits of a loop, on its thread.
struct Waits<'a> {
    residence: &'a Residence,
    shared: &'a Shared,
    /// The number by which the loop knows its descriptor.
    number: RawFd,
    /// The same file. No code of Python closes it.
    descriptor: &'a OwnedFd,
    reactor: RefCell<&'a mut dyn Reactor>,
    shares: bool,
    /// When the host was here last.
    last: Cell<Instant>,
}

impl Waiter for Waits<'_> {
    fn descriptor(&self) -> c_int {
        self.number
    }

    fn is_due(&self) -> bool {
        self.shares && self.last.get().elapsed() >= SHARE
    }

    fn wait(&self, limit: Option<Duration>) -> Option<c_int> {
        let mailbox = &self.shared.mailbox;
        // A loop within a function that the reactor calls waits by itself.
        let Ok(mut reactor) = self.reactor.try_borrow_mut() else {
            Sleeper.wait(self.descriptor.as_fd(), limit);
            return None;
        };
        let mut wait =
            |limit| mailbox.while_waiting(|| reactor.wait(self.descriptor.as_fd(), limit));
        let waited = caught("the reactor of an event loop", || {
            if !mailbox.has_silent() && self.residence.outside(|| wait(limit)).is_none() {
                // The code that waits holds the GIL.
                Sleeper.wait(self.descriptor.as_fd(), limit);
            }
            Ok(())
        });
        if let Err(error) = waited {
            tracing::error!(interpreter = %self.shared.interpreter, %error, "its event loop ends");
            self.shared.close();
            mailbox.ring();
        }
        self.last.set(Instant::now());
        mailbox.has_silent().then(|| mailbox.tell())
    }
}

/// Starts the thread of a loop, an object `Driven` of Python.
///
/// # Errors
///
/// [`Error::Io`] if the system refuses a descriptor, [`Error::Start`] if it refuses a thread.
pub(super) fn start(
    session: &Session,
    shared: &Arc<Shared>,
    driven: &Object<'_>,
    descriptor: BorrowedFd<'_>,
    (mut reactor, shares): (Box<dyn Reactor>, bool),
) -> Result<()> {
    let number = descriptor.as_raw_fd();
    // A descriptor of its own: no Python code closes it.
    let descriptor = descriptor
        .try_clone_to_owned()
        .map_err(|source| Error::Io { path: "the descriptor of an event loop".into(), source })?;
    let handle = driven.clone().into_handle_in(session)?;
    let object = LoopObject(handle);
    let name = format!("event loop of {}", session.interpreter().name());
    let shared = shared.clone();
    let started = session.interpreter().start_resident("event loop", move |residence| {
        // All of it moves here, with what makes it `Send`.
        let object = object;
        let driven = Driven { residence, object };
        let waits = Waits {
            residence,
            shared: &shared,
            number,
            descriptor: &descriptor,
            reactor: RefCell::new(&mut *reactor),
            shares,
            last: Cell::new(Instant::now()),
        };
        let driving = driven.drive(&name, &waits);
        // The end waits in the interpreter.
        drop(reactor);
        match driving {
            Ok(()) => driven.end(&shared),
            Err(Error::Crashed { report }) => shared.crashed(report),
            Err(error) => {
                tracing::error!(interpreter = %shared.interpreter, %error, "its event loop has failed");
                driven.end(&shared);
            }
        }
    });
    if started.is_err() {
        // SAFETY: the reference was the thread's, and any thread may release one.
        unsafe { (session.inner().table().release)(handle) };
    }
    started
}

impl Driven<'_> {
    /// Runs the loop until the interpreter ends.
    fn drive(&self, name: &str, waits: &Waits<'_>) -> Result<()> {
        self.call("begin", &[TaggedValue::view(Kind::STR, name.as_bytes())])?;
        loop {
            match waiting_by(waits, || self.call("run", &[])) {
                Err(error) if is_passing(&error) => {}
                ended => return ended,
            }
        }
    }

    /// Ends the loop: its tasks are cancelled, and waited for.
    fn end(self, shared: &Shared) {
        shared.close();
        match self.call("end", &[]) {
            Ok(()) => {}
            Err(Error::Crashed { report }) => return shared.crashed(report),
            Err(error) => {
                tracing::warn!(interpreter = %shared.interpreter, %error, "its event loop ended with an error");
            }
        }
        // SAFETY: attached, and the reference is given up once.
        self.residence.visit(|table| unsafe { (table.release_attached)(self.object.0) });
    }

    /// Calls a method of the loop, in a visit of its own.
    fn call(&self, method: &str, arguments: &[TaggedValue]) -> Result<()> {
        self.residence.visit(|table| {
            let arguments = CallArguments {
                values: arguments.as_ptr(),
                positional: arguments.len(),
                names: ptr::null(),
                named: 0,
            };
            let (mut result, mut sink) = (ptr::null_mut(), Sink::default());
            // SAFETY: attached. The object is alive, as this has a reference to it, and the arguments outlive the call.
            let status = unsafe {
                let method = Text::new(method);
                (table.call)(self.object.0, method, &arguments, &mut result, sink.pointer())
            };
            sink.check(status)?;
            // SAFETY: attached, and the result is a reference that is this function's.
            unsafe { (table.release_attached)(result) };
            Ok(())
        })
    }
}

/// Whether Python code has sent the thread an exception that loops survive, and that was raised outside of the loop
/// (`PyThreadState_SetAsyncExc`).
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Python { type_name, .. } => {
            ["KeyboardInterrupt", "SystemExit"].contains(&type_name.as_str())
        }
        Error::Interrupted { .. } | Error::Deadline { .. } => true,
        _ => false,
    }
}

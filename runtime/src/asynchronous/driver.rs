//! The thread of an event loop. It runs the loop's turns, and sleeps outside of the interpreter in between.
//!
//! asyncio's loop waits in its selector. The interpreter's own loop has a selector that ends the turn there, and says for how long it would have
//! waited (`Driven` in `payload/python/events.py`). The descriptor of epoll(7) that the selector has is readable while the loop has
//! something to do: a file, a letter in the mailbox, a callback of another thread of Python. So this thread waits for that descriptor,
//! with the loop's next timer as the limit. Nobody is in the interpreter meanwhile, and it can be settled. A host
//! that has other work for the thread does it there ([`Reactor`]).

use super::Shared;
use super::job::caught;
use super::reactor::Reactor;
use crate::interpreter::Residence;
use crate::object::Object;
use crate::payload::Sink;
use crate::payload::table::{CallArguments, Handle, Kind, PayloadTable, TaggedValue, Text};
use crate::session::Session;
use crate::{Error, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

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

/// The wish of a loop after a turn.
enum Wish {
    /// To sleep, at most so long.
    Sleep(Option<Duration>),
    /// To end, with its interpreter.
    End,
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
    mut reactor: Box<dyn Reactor>,
) -> Result<()> {
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
        let driving = driven.drive(&name, &shared, &descriptor, &mut *reactor);
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
    /// Runs turns until the interpreter ends.
    fn drive(
        &self,
        name: &str,
        shared: &Shared,
        descriptor: &OwnedFd,
        reactor: &mut dyn Reactor,
    ) -> Result<()> {
        self.call("begin", &[TaggedValue::view(Kind::STR, name.as_bytes())])?;
        while !shared.ends() {
            let has_letters = shared.mailbox.has_silent();
            let has_letters = TaggedValue::integer(Kind::BOOL, has_letters.into());
            match self.call("turn", &[has_letters]) {
                Ok(Wish::Sleep(pause)) => {
                    let wait = || reactor.wait(descriptor.as_fd(), pause);
                    caught("the reactor of an event loop", || {
                        shared.mailbox.while_waiting(wait);
                        Ok(())
                    })?;
                }
                Ok(Wish::End) => break,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the loop: its tasks are cancelled, and waited for.
    fn end(self, shared: &Shared) {
        shared.close();
        match self.call("end", &[]) {
            Ok(_) => {}
            Err(Error::Crashed { report }) => return shared.crashed(report),
            Err(error) => {
                tracing::warn!(interpreter = %shared.interpreter, %error, "its event loop ended with an error");
            }
        }
        // SAFETY: attached, and the reference is given up once.
        self.residence.visit(|table| unsafe { (table.release_attached)(self.object.0) });
    }

    /// Calls a method of the loop, in a visit of its own.
    fn call(&self, method: &str, arguments: &[TaggedValue]) -> Result<Wish> {
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
            unsafe { wish(table, result) }
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

/// Reads the result of a turn, and takes the reference over.
///
/// # Safety
///
/// Attached, with an owned reference.
unsafe fn wish(table: &PayloadTable, result: Handle) -> Result<Wish> {
    let (mut value, mut sink) = (TaggedValue::new(Kind::OTHER), Sink::default());
    // SAFETY: by contract.
    let status = unsafe {
        let status = (table.inspect)(result, &mut value, sink.pointer());
        (table.release_attached)(result);
        status
    };
    sink.check(status)?;
    let seconds = match value.kind {
        Kind::FLOAT => value.as_float(),
        Kind::INT => value.as_integer() as f64,
        _ => return Ok(Wish::Sleep(None)),
    };
    match seconds < 0.0 {
        true => Ok(Wish::End),
        // Longer than the type can say is for ever.
        false => Ok(Wish::Sleep(Duration::try_from_secs_f64(seconds).ok())),
    }
}

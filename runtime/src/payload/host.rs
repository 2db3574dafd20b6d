//! The functions of the host that the payload may call, and the way back of a failure as an [`Error`].

use super::passing;
use super::table::{Failure, Header, HostTable, Interrupt, Status, Text};
use crate::{Error, Result};
use std::ffi::c_void;

/// The one table that every payload gets.
pub(super) static HOST: HostTable = HostTable { header: Header::of::<HostTable>(), fail };

/// Where a call across the boundary leaves its failure.
#[derive(Default)]
pub(crate) struct Sink(Option<Error>);

impl Sink {
    /// The `sink` argument for one call.
    pub(crate) fn pointer(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }

    /// The call's result.
    #[inline]
    pub(crate) fn check(&mut self, status: Status) -> Result<()> {
        match status {
            Status::DONE => Ok(()),
            _ => Err(self.failure(status)),
        }
    }

    /// Why a call failed.
    #[cold]
    pub(crate) fn failure(&mut self, status: Status) -> Error {
        self.0.take().unwrap_or_else(|| {
            Error::defect(format_args!("status {} without a description", status.0))
        })
    }
}

/// # Safety
///
/// `sink` must come from [`Sink::pointer`] and be used by this thread only; `failure` must be valid
/// during the call.
unsafe extern "C" fn fail(sink: *mut c_void, failure: *const Failure) {
    // SAFETY: the table's contract is that `failure` is valid during this call.
    let failure = unsafe { &*failure };
    // SAFETY: as above; the texts are views that the payload keeps for the call.
    let text = |text: Text| String::from_utf8_lossy(unsafe { text.bytes() }).into_owned();
    let message = text(failure.message);
    let error = match failure.status {
        Status::EXCEPTION => {
            let type_name = text(failure.type_name);
            match Interrupt::of(&type_name) {
                Some(Interrupt::DEADLINE) => Error::Deadline { traceback: text(failure.traceback) },
                Some(_) => Error::Interrupted { traceback: text(failure.traceback) },
                None => passing::take(&type_name, &message).unwrap_or_else(|| Error::Python {
                    type_name,
                    message,
                    traceback: text(failure.traceback),
                }),
            }
        }
        Status::START => Error::Start {
            interpreter: text(failure.type_name),
            message,
            traceback: text(failure.traceback),
        },
        Status::CONVERSION => Error::convert(text(failure.type_name), "the value", message),
        Status::PANIC => Error::defect(format_args!("panic inside an interpreter: {message}")),
        Status(other) => Error::defect(format_args!("unknown status {other}: {message}")),
    };
    // SAFETY: every call passes `Sink::pointer` of a sink on its own stack, and returns before the
    // sink goes out of scope.
    unsafe { (*sink.cast::<Sink>()).0 = Some(error) };
}

//! The functions of the host that the payload may call, and the way back of a failure as an [`Error`].

use super::table::{Failure, Header, HostTable, Interrupt, Status, Text};
use crate::crash::contain::{self, CRASHED};
use crate::thread::grace_period;
use crate::{Error, Result};
use hydrozoa_loader::Process;
use std::ffi::c_void;

/// The one table that every payload gets.
pub(super) static HOST: HostTable =
    HostTable { header: Header::of::<HostTable>(), fail, process, let_threads_pass };

/// An interpreter, as the owner of the exceptions that its calls end with.
pub(crate) trait Owner {
    /// The error of a call that ended with an exception; `error` has its texts.
    ///
    /// # Safety
    ///
    /// `failure` must describe an exception of this interpreter and be valid, and the thread must be attached.
    unsafe fn raised(&self, error: Error, failure: &Failure) -> Error;
}

/// Where a call across the boundary leaves its failure.
#[derive(Default)]
pub(crate) struct Sink<'call> {
    owner: Option<&'call dyn Owner>,
    error: Option<Error>,
}

impl<'call> Sink<'call> {
    /// For a call whose error shall have the exception. Without an owner it has the texts only.
    pub(crate) fn of(owner: &'call dyn Owner) -> Self {
        Self { owner: Some(owner), error: None }
    }

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
        if status == Status(CRASHED) {
            return contain::error();
        }
        self.error.take().unwrap_or_else(|| {
            Error::defect(format_args!("status {} without a description", status.0))
        })
    }
}

/// # Safety
///
/// `sink` must come from [`Sink::pointer`] and be used by this thread only; `failure` must be valid
/// during the call.
unsafe extern "C" fn fail(sink: *mut c_void, failure: *const Failure) {
    // SAFETY: every call passes `Sink::pointer` of a sink on its own stack, and returns before the
    // sink goes out of scope.
    let sink = unsafe { &mut *sink.cast::<Sink<'_>>() };
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
                None => {
                    let traceback = text(failure.traceback);
                    let error = Error::Python { type_name, message, traceback, exception: None };
                    match sink.owner {
                        // SAFETY: a call that ends with an exception is attached, to the interpreter that the
                        // caller has made the sink for.
                        Some(owner) if !failure.exception.is_null() => unsafe {
                            owner.raised(error, failure)
                        },
                        _ => error,
                    }
                }
            }
        }
        Status::START => Error::Start {
            interpreter: text(failure.type_name),
            message,
            traceback: text(failure.traceback),
        },
        Status::CONVERSION => Error::convert(text(failure.type_name), "the value", message),
        Status::PANIC => Error::defect(format_args!("panic in the payload: {message}")),
        Status(other) => Error::defect(format_args!("unknown status {other}: {message}")),
    };
    sink.error = Some(error);
}

unsafe extern "C" fn process() -> u32 {
    Process::current().number()
}

unsafe extern "C" fn let_threads_pass() {
    grace_period::wait();
}

//! Containment: a crash of an interpreter's code becomes the error of the calls into it.
//!
//! The payload's functions are the only way into an interpreter. Those of an interpreter that contains its crashes go through a
//! guard ([`landing`]), which notes where each call began ([`inside`]). So do the threads that the interpreter's code creates. The
//! handler of fatal signals walks from the fault to the innermost of these calls. If nothing lies in between that may hold
//! something of the process ([`judge`]), the handler discards it: it edits the interrupted thread's registers and returns,
//! and the thread goes on behind the call with the status [`CRASHED`]. Otherwise the process ends, with a report, as it
//! does without containment.
//!
//! From then on every call into the interpreter is refused with that status. Threads that are inside are sent out by the same way
//! ([`home`]). The interpreter ends when its handles and sessions are dropped, as any does, but none of its code runs any
//! more: what it had is taken from it (`Domain::abandon` of the loader), and what the application had lent to it is dropped
//! ([`lent`]).

mod contained;
mod home;
mod inside;
mod judge;
mod landing;
mod lent;

pub(crate) use contained::{Contained, GuardEntry, Guarded};
pub(crate) use home::{depart, prepare};
pub(in crate::crash) use judge::{Landing, Refused, Verdict, judge};
pub(crate) use lent::{give, take_back};

use super::{damage, handler};
use crate::{Error, heap};
use std::ffi::c_int;

/// Status of a call that has crashed, or whose interpreter has crashed before. It is none of the payload's.
pub(crate) const CRASHED: c_int = -1;

/// Why the calling thread's last call has failed with [`CRASHED`].
#[cold]
pub(crate) fn error() -> Error {
    // SAFETY: null, or an interpreter that the failed call's owner keeps.
    let contained = unsafe { inside::refused().as_ref() };
    Error::Crashed { report: contained.map_or_else(String::new, Contained::report) }
}

/// Behind the frames of a crash.
extern "C" fn landed() {
    tell();
    inside::restore_exceptions();
}

/// Notes the report, if this was the interpreter's first crash.
fn tell() {
    inside::restore();
    // SAFETY: null, or an interpreter whose guarded call the thread is in.
    let Some(contained) = (unsafe { inside::refused().as_ref() }) else { return };
    heap::leave(contained.domain());
    // Only the first crash has a report, which has told it.
    damage::take();
    if let Some(report) = handler::take_report() {
        contained.set_report(&report);
        home::send();
    }
}

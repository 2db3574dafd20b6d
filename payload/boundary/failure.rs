//! Failures on their way to the host, and exceptions on their way to Python.

use crate::table::{Handle, Status, Text};
use std::ffi::c_void;

/// A failure, described for [`HostTable::fail`](crate::table::HostTable::fail); valid during that call only.
#[repr(C)]
#[derive(Debug)]
pub struct Failure {
    /// Which kind of failure.
    pub status: Status,
    /// Qualified name of the exception's type; empty unless [`Status::EXCEPTION`].
    pub type_name: Text,
    /// `str(exception)`, or what failed.
    pub message: Text,
    /// The text of `traceback.format_exception`; may be empty.
    pub traceback: Text,
    /// The exception itself, borrowed; null unless [`Status::EXCEPTION`].
    pub exception: Handle,
    /// The [`Raising::error`] that the exception holds, or null. It stays the exception's.
    pub error: *mut c_void,
}

impl Failure {
    /// A failure of which there are texts only.
    pub const fn new(status: Status, type_name: &str, message: &str, traceback: &str) -> Self {
        Self {
            status,
            type_name: Text::new(type_name),
            message: Text::new(message),
            traceback: Text::new(traceback),
            exception: std::ptr::null_mut(),
            error: std::ptr::null_mut(),
        }
    }
}

/// An exception for [`PayloadTable::raise`](crate::table::PayloadTable::raise); valid during that call only.
#[repr(C)]
#[derive(Debug)]
pub struct Raising {
    /// The exception itself, which was raised before: it is raised again as it is. Null: one is made.
    pub exception: Handle,
    /// The built-in type of the one that is made, or that of an [`Interrupt`](crate::table::Interrupt). If the type does not
    /// exist, or takes more than a message, a `RuntimeError` is made whose message names it.
    pub type_name: Text,
    /// The only argument of the one that is made.
    pub message: Text,
    /// The cause of the one that is made, or null.
    pub cause: Handle,
    /// Without a cause: the text of another interpreter's traceback. It becomes the text of a cause. May be empty.
    pub traceback: Text,
    /// An error of the host that the exception shall hold, or null. The exception is then a `RuntimeError`.
    pub error: *mut c_void,
    /// Called once with `error` unless that is null, when no exception holds it any more. Under the GIL.
    pub drop: unsafe extern "C" fn(error: *mut c_void),
}

//! Typed errors on their way through Python.
//!
//! A host function's error becomes a `RuntimeError` of the same text. If that comes out of the call
//! by which the host entered Python, on the same thread, the host gets its own error back.

use crate::Error;
use std::cell::RefCell;

/// What Python sees of an error that is none of Python's.
pub(crate) const TYPE: &str = "RuntimeError";

thread_local! {
    /// The last one raised by a host function on this thread, with its text.
    static LAST: RefCell<Option<(String, Error)>> = const { RefCell::new(None) };
}

/// Keeps an error that Python is told of by `message`, if its type says more than that.
pub(crate) fn keep(error: Error, message: String) {
    if matches!(error, Error::Device(_) | Error::Package(_) | Error::Foreign { .. }) {
        // While a thread's own destructors run there is nobody to give it back to.
        let _ = LAST.try_with(|last| last.replace(Some((message, error))));
    }
}

/// The error that Python was told of by `message`, if that was the last one.
pub(super) fn take(type_name: &str, message: &str) -> Option<Error> {
    if type_name != TYPE {
        return None;
    }
    LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        last.take_if(|(known, _)| known == message).map(|(_, error)| error)
    })
    .ok()
    .flatten()
}

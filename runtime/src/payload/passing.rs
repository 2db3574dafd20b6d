//! Typed errors on their way through Python.
//!
//! A host function's error becomes a `RuntimeError` of the same text. If that exception leaves the call
//! by which the host entered Python, on the same thread, the host gets its own error back.

use crate::Error;
use std::cell::RefCell;

/// Python's view of an error that did not come from Python.
pub(crate) const TYPE: &str = "RuntimeError";

thread_local! {
    /// The last one raised by a host function on this thread, with its text.
    static LAST: RefCell<Option<(String, Error)>> = const { RefCell::new(None) };
}

/// Keeps an error that Python sees as `message`, if its type says more than the message.
pub(crate) fn keep(error: Error, message: String) {
    if matches!(
        error,
        Error::Device(_)
            | Error::Package(_)
            | Error::Foreign { .. }
            | Error::Stack { .. }
            | Error::Panic(_)
    ) {
        // While a thread's own destructors run, nobody can receive it.
        let _ = LAST.try_with(|last| last.replace(Some((message, error))));
    }
}

/// The error that Python saw as `message`, if that was the last one.
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

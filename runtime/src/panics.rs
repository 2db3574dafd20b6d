//! Panics of the application's code that C code has called.
//!
//! A panic cannot leave a function of C: the process would end. So it ends here. Its payload is never dropped, since
//! that could panic too.

use crate::error::panic_message;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `action`. A panic in it is an error: its message.
pub(crate) fn contained<T>(action: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(action)).map_err(|panic| {
        let message = panic_message(&*panic).to_owned();
        std::mem::forget(panic);
        message
    })
}

/// Drops `what`, a value of the application's: nobody could be told of a panic in its destructor.
pub(crate) fn drop_contained<T>(what: &str, value: T) {
    if let Err(panic) = contained(|| drop(value)) {
        tracing::error!(panic, "the destructor of {what} panicked");
    }
}

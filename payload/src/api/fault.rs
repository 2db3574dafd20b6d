//! Failures of operations, and the results that carry them.

/// Why an operation failed.
pub(crate) enum Fault {
    /// A Python exception is set in this thread.
    Raised,
    /// A value does not have the form that the host asked for.
    Conversion { expected: &'static str, reason: String },
    /// The interpreter did not start.
    Start { name: String, message: String, traceback: String },
}

/// The result of an operation.
pub(crate) type Outcome<T> = Result<T, Fault>;

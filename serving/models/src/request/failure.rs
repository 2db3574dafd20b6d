//! The failure of a request.

use std::fmt;

/// The kind of a failure, by Triton's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// Nothing is known about it.
    Unknown,
    /// The server or the model failed.
    Internal,
    /// No such model, version or tensor.
    NotFound,
    /// The request is wrong.
    InvalidArgument,
    /// Not now: the queue is full, the model is not ready, or the request has waited too long.
    Unavailable,
    /// The server does not do this.
    Unsupported,
    /// It exists already.
    AlreadyExists,
    /// The caller has gone.
    Cancelled,
}

/// In the order of the numbers that models use.
const CODES: [Code; 8] = [
    Code::Unknown,
    Code::Internal,
    Code::NotFound,
    Code::InvalidArgument,
    Code::Unavailable,
    Code::Unsupported,
    Code::AlreadyExists,
    Code::Cancelled,
];

impl Code {
    /// The code of a model's number (`TritonError.INTERNAL` and its kin).
    pub fn of_number(number: i64) -> Self {
        usize::try_from(number)
            .ok()
            .and_then(|place| CODES.get(place))
            .copied()
            .unwrap_or(Code::Unknown)
    }

    /// The number of [`Code::of_number`].
    pub fn number(self) -> i64 {
        CODES.iter().position(|code| *code == self).unwrap_or_default() as i64
    }
}

/// Why a request produced no outputs. The text is for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub code: Code,
    /// The operation that failed, and the model or tensor it failed on.
    pub message: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A decoupled model was called by a caller that takes one response, in the words of Triton's Python backend.
    pub fn needs_decoupled(model: &str) -> Self {
        let words = format!(
            "Model {model} is using the decoupled. The current BLS request call doesn't support models using the decoupled \
             transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled \
             models.'"
        );
        Self::new(Code::Unsupported, words)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::{CODES, Code};

    #[test]
    fn a_code_is_found_by_its_number() {
        assert!(CODES.iter().all(|code| Code::of_number(code.number()) == *code));
        assert_eq!((Code::of_number(-1), Code::of_number(8)), (Code::Unknown, Code::Unknown));
    }
}

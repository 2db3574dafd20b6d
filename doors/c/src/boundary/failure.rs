//! Why a function of the interface failed.

use super::status::hz_status;
use std::any::Any;

/// The result of a function of this crate.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a function failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument, or a misuse of a session.
    Misuse(hz_status, String),
    /// The runtime's word.
    Runtime(runtime::Error),
    /// The message of a panic.
    Panic(String),
}

impl Failure {
    /// An argument that is not accepted.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::Misuse(hz_status::HZ_ERROR_INVALID_ARGUMENT, message.into())
    }

    /// The system gives no memory for so many bytes.
    pub(crate) fn memory(bytes: usize) -> Self {
        let message = format!("memory for a copy of {bytes} bytes cannot be allocated");
        Self::Misuse(hz_status::HZ_ERROR_SYSTEM, message)
    }

    /// The failure of a panic. The panic's payload is not dropped, since that could panic too.
    pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("a panic without a message");
        let failure = Self::Panic(format!(
            "{text} (a defect of hydrozoa: report it with the program's output)"
        ));
        std::mem::forget(panic);
        failure
    }

    /// The interpreter has crashed.
    pub(crate) fn is_crash(&self) -> bool {
        self.status() == hz_status::HZ_ERROR_CRASHED
    }

    pub(crate) fn status(&self) -> hz_status {
        match self {
            Self::Misuse(status, _) => *status,
            Self::Runtime(error) => hz_status::of(error),
            Self::Panic(_) => hz_status::HZ_ERROR_PANIC,
        }
    }
}

impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Self {
        Self::Runtime(error)
    }
}

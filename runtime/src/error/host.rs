//! Errors of the application that go through Python.

use super::Exception;
use std::error::Error as StdError;
use std::fmt;

/// An error of the application that a host function has returned
/// ([`Error::host`](crate::Error::host)).
///
/// Its text is that of the application's error, and so is its [source](StdError::source).
pub struct HostError {
    error: Box<dyn StdError + Send + Sync>,
    /// Empty until it went through Python.
    traceback: String,
    /// The exception that Python raised in its place.
    exception: Option<Exception>,
}

impl HostError {
    pub(super) fn new(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self { error, traceback: String::new(), exception: None }
    }

    /// The same with what Python has raised in its place.
    pub(crate) fn raised(self, traceback: String, exception: Exception) -> Self {
        Self { traceback, exception: Some(exception), ..self }
    }

    /// The application's error.
    pub fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.error
    }

    /// The application's error, if it is an `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// The application's error.
    pub fn into_error(self) -> Box<dyn StdError + Send + Sync> {
        self.error
    }

    /// The text of Python's traceback, with the frames between the host function and the call by which the host entered
    /// Python. `None` before the error went through Python.
    pub fn traceback(&self) -> Option<&str> {
        Some(self.traceback.as_str()).filter(|text| !text.is_empty())
    }

    /// The `RuntimeError` that Python has had in its place. `None` before the error went through Python.
    pub fn exception(&self) -> Option<&Exception> {
        self.exception.as_ref()
    }

    pub(crate) fn take_exception(&mut self) -> Option<Exception> {
        self.exception.take()
    }

    /// The texts of the error and its sources, from the outermost to the innermost, as Python shows them. A text that
    /// the one before ends with is left out.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.error.to_string();
        let mut source = self.error.source();
        while let Some(error) = source {
            let inner = error.to_string();
            if !text.ends_with(&inner) {
                text = format!("{text}: {inner}");
            }
            source = error.source();
        }
        text
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl fmt::Debug for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl StdError for HostError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

//! Why a value was not converted, and where it is.

use crate::Error;
use std::fmt::{self, Display};

/// A failure with the path to its value, from the inside out.
#[derive(Debug)]
pub(super) struct Failure {
    cause: Cause,
    path: Vec<String>,
}

#[derive(Debug)]
enum Cause {
    /// A message of serde or of the type's own code.
    Message(String),
    /// An error of the conversion of one object.
    Conversion(Box<Error>),
}

impl Failure {
    /// One step of the path further out: `.name` or `[key]`.
    pub(super) fn within(mut self, step: impl FnOnce() -> String) -> Self {
        self.path.push(step());
        self
    }

    /// The error of the conversion between Python and the type `name`.
    pub(super) fn into_error(self, name: &str) -> Error {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        let found = match path.trim_start_matches('.') {
            "" => "a value".to_owned(),
            path => format!("the value at {path}"),
        };
        match self.cause {
            Cause::Message(message) => Error::convert(name, found, message),
            Cause::Conversion(error) => match *error {
                Error::Convert { expected, found: kind, reason } => {
                    let reason = format!("{kind} is not {expected}: {reason}");
                    Error::convert(name, found, reason)
                }
                // An exception that Python raised passes through.
                error => error,
            },
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { cause: Cause::Conversion(Box::new(error)), path: Vec::new() }
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Message(message) => formatter.write_str(message),
            Cause::Conversion(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for Failure {}

impl serde::de::Error for Failure {
    fn custom<T: Display>(message: T) -> Self {
        Self { cause: Cause::Message(message.to_string()), path: Vec::new() }
    }
}

impl serde::ser::Error for Failure {
    fn custom<T: Display>(message: T) -> Self {
        serde::de::Error::custom(message)
    }
}

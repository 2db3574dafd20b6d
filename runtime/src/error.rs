//! The crate's errors.

mod device;
mod exception;
mod host;
mod package;
mod unsettled;

pub use device::DeviceError;
pub use exception::Exception;
pub use host::HostError;
pub use package::PackageError;
pub use unsettled::Unsettled;

use crate::python::Candidate;
use hydrozoa_loader::remedy;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
///
/// [`Error::Python`] is a failure of the Python program; show it to the program's author. [`Error::Host`] is one of the
/// application's own errors. The other variants are about the machine or about a wrong use of this crate. Their texts say
/// what failed, on which object, and what to do.
///
/// An error from a Python exception holds the exception itself ([`Error::exception`]), and the exception holds its
/// traceback with all variables of the frames in it. So a stored error keeps memory in the interpreter. Drop it
/// where it is handled, or call [`Error::without_exception`] if you store it: the texts stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Python code raised an exception.
    #[error("{type_name}: {message}")]
    Python {
        /// The exception's type as a traceback prints it: its `__qualname__`, after the module unless it
        /// is built in.
        type_name: String,
        /// `str(exception)`.
        message: String,
        /// The text of `traceback.format_exception`: causes, frames and the last line.
        traceback: String,
        /// The exception itself. `None` if the error was made from texts ([`Error::raise`]), or gave the exception up
        /// ([`Error::without_exception`]).
        exception: Option<Exception>,
    },
    /// A host function ([`Session::function`](crate::Session::function)) has failed with an error of the application
    /// ([`Error::host`]).
    #[error(transparent)]
    Host(HostError),
    /// The call was interrupted by its session's [`InterruptHandle`](crate::InterruptHandle).
    #[error(
        "the call was interrupted by a handle of its session (Error::traceback says where it was)"
    )]
    Interrupted {
        /// Where it was, as in [`Error::Python`].
        traceback: String,
    },
    /// The call has exceeded its deadline ([`Session::with_deadline`](crate::Session::with_deadline)), or did not begin
    /// before it.
    #[error("{}", deadline(traceback))]
    Deadline {
        /// Where it was, as in [`Error::Python`]. Empty if it did not begin: then it has had no effect.
        traceback: String,
    },
    /// Code of the interpreter has crashed, in this call or before, and the crash was contained
    /// ([`Builder::contain_crashes`](crate::Builder::contain_crashes)). All calls on this interpreter fail from now on: drop its
    /// sessions and handles, and use another one.
    #[error("{}", crashed(report))]
    Crashed {
        /// The report of the crash, as [`CrashReport::text`](crate::CrashReport::text).
        report: String,
    },
    /// A library could not be loaded into the interpreter's domain.
    #[error(transparent)]
    Load(#[from] hydrozoa_loader::Error),
    /// No usable Python was found.
    #[error("no usable Python was found{}", list(candidates))]
    PythonNotFound {
        /// The candidates, each with the reason against it.
        candidates: Vec<Candidate>,
    },
    /// The interpreter did not start.
    #[error("{interpreter} did not start: {message}")]
    Start {
        /// The interpreter's name.
        interpreter: String,
        /// CPython's report; for an exception its type and its text.
        message: String,
        /// The exception's traceback, if one was the cause; may be empty.
        traceback: String,
    },
    /// The part of this crate that lives in the interpreter does not fit the rest.
    #[error("payload for Python 3.{minor}: {reason}")]
    Payload {
        /// The Python version's second number.
        minor: u8,
        /// Why it does not fit.
        reason: String,
    },
    /// A value does not have the form that was asked for.
    #[error("cannot convert {found} to {expected}: {reason}")]
    Convert {
        /// The form asked for.
        expected: String,
        /// The value's own form.
        found: String,
        /// Why it cannot be converted.
        reason: String,
    },
    /// An object was passed to an interpreter that it does not belong to.
    #[error(
        "an object of {owner} was passed to {receiver}; objects move between interpreters as a Movable or by value"
    )]
    Foreign {
        /// The interpreter that holds the object, and whether it is of another pool.
        owner: String,
        /// The interpreter that was called.
        receiver: String,
    },
    /// The interpreter of a [`Handle`](crate::Handle) or an [`Exception`] has ended, and its object with it.
    #[error(
        "{interpreter} has ended, and this object with it: keep its Pool or Interpreter as long as the object is used, or \
         make the object again in another interpreter"
    )]
    Ended {
        /// The interpreter's name.
        interpreter: String,
    },
    /// A pool was asked for an interpreter that it does not have.
    #[error(
        "there is no interpreter {index}: the pool has {count}, numbered from 0 (Pool::resize adds some)"
    )]
    NoSuchInterpreter {
        /// The index asked for, from 0.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// [`Pool::try_acquire`](crate::Pool::try_acquire) or [`Pool::acquire_timeout`](crate::Pool::acquire_timeout) found no
    /// interpreter with few enough sessions.
    #[error("{}", busy(*interpreters, *sessions, *waited))]
    Busy {
        /// How many there are.
        interpreters: usize,
        /// The limit on sessions: [`Builder::max_sessions`](crate::Builder::max_sessions), or 1.
        sessions: usize,
        /// How long the call has waited.
        waited: Duration,
    },
    /// An interpreter that was to end ([`Interpreter::close`](crate::Interpreter::close),
    /// [`Pool::close`](crate::Pool::close)) has not ended in time.
    #[error("{}", in_use(interpreter, *sessions, *waited))]
    InUse {
        /// Its name.
        interpreter: String,
        /// Its open sessions.
        sessions: usize,
        /// How long the call has waited.
        waited: Duration,
    },
    /// The interpreter was not settled ([`Interpreter::settle`](crate::Interpreter::settle)), or not all of it.
    #[error("{interpreter} was not settled: {reason}")]
    Settle {
        /// Its name.
        interpreter: String,
        /// The reason.
        reason: Unsettled,
    },
    /// The imports of some work cannot be recorded in a profile ([`Builder::record_imports`](crate::Builder::record_imports)).
    #[error("{0}")]
    Imports(String),
    /// The calling thread's stack has too little room to run Python on it.
    #[error(
        "this thread has {} KiB of stack left, and Python needs {} KiB: call it on a thread with a larger stack \
         (std::thread::Builder::stack_size; 8 MiB are what Python's own limits are made for)",
        room >> 10, least >> 10
    )]
    Stack {
        /// The stack left, in bytes.
        room: usize,
        /// The stack needed, in bytes.
        least: usize,
    },
    /// The program is a sealed application ([`sealed`](crate::sealed)) whose file is truncated or damaged.
    #[error("{}: {problem}", application.display())]
    Sealed {
        /// The program.
        application: PathBuf,
        /// Its damage, and the remedy.
        problem: String,
    },
    /// A setting that cannot be met.
    #[error("{0}")]
    Configuration(String),
    /// A file could not be read.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A package is unusable.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// An object needs a device that the interpreter's torch cannot use.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Code inside an interpreter panicked: a host function ([`Session::function`](crate::Session::function)), or this
    /// crate, which is a defect.
    #[error("{0}")]
    Panic(String),
}

impl Error {
    /// An exception of a built-in type, for Python code that calls a host function
    /// ([`Session::function`](crate::Session::function)): `Error::raise("KeyError", name)`.
    ///
    /// The exception is made when it is raised, as `type_name(message)`. If the built-in type does not exist, or cannot
    /// be made from one text (`UnicodeDecodeError`), a `RuntimeError` is raised whose text begins with the type's name.
    /// [`Object::into_error`](crate::Object::into_error) raises exceptions of all other types.
    pub fn raise(type_name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Python {
            type_name: type_name.into(),
            message: message.into(),
            traceback: String::new(),
            exception: None,
        }
    }

    /// An error of the application, for a host function to return: `read(path).map_err(Error::host)?`.
    ///
    /// Python gets a `RuntimeError` with the texts of `source` and of its sources. If that leaves Python, this error
    /// comes out again. A `source` that is an [`Error`] of this crate is returned as it is.
    pub fn host(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        match source.into().downcast() {
            Ok(own) => *own,
            Err(source) => Self::Host(HostError::new(source)),
        }
    }

    /// The traceback's text, if the error is a Python exception or went through Python.
    pub fn traceback(&self) -> Option<&str> {
        match self {
            Self::Python { traceback, .. } | Self::Interrupted { traceback } => Some(traceback),
            Self::Deadline { traceback } | Self::Start { traceback, .. }
                if !traceback.is_empty() =>
            {
                Some(traceback)
            }
            Self::Host(error) => error.traceback(),
            _ => None,
        }
    }

    /// The exception, if the error came from one or went through Python as one.
    pub fn exception(&self) -> Option<&Exception> {
        match self {
            Self::Python { exception, .. } => exception.as_ref(),
            Self::Host(error) => error.exception(),
            _ => None,
        }
    }

    /// The same without the exception, whose frames and their variables can then be freed. The texts stay.
    ///
    /// If such an error is raised in Python, it is a new exception.
    #[must_use]
    pub fn without_exception(mut self) -> Self {
        match &mut self {
            Self::Python { exception, .. } => *exception = None,
            Self::Host(error) => drop(error.take_exception()),
            _ => {}
        }
        self
    }

    /// The same failure for another thread that waited for the same result, in the form that it has after
    /// passing through Python.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Python { type_name, message, traceback, exception } => Self::Python {
                type_name: type_name.clone(),
                message: message.clone(),
                traceback: traceback.clone(),
                exception: exception.clone(),
            },
            Self::Interrupted { traceback } => Self::Interrupted { traceback: traceback.clone() },
            Self::Deadline { traceback } => Self::Deadline { traceback: traceback.clone() },
            Self::Device(error) => Self::Device(error.clone()),
            Self::Crashed { report } => Self::Crashed { report: report.clone() },
            other => Self::raise("RuntimeError", other.to_string()),
        }
    }

    /// The kernel refused to create the thread that was to start an interpreter.
    pub(crate) fn no_thread(interpreter: &str, error: &std::io::Error) -> Self {
        Self::Start {
            interpreter: interpreter.to_owned(),
            message: format!("the system gives it no thread: {error}{}", remedy(error)),
            traceback: String::new(),
        }
    }

    /// The message of a panic.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        Self::defect(panic_message(panic))
    }

    /// A failure that only a defect of this crate explains.
    pub(crate) fn defect(what: impl fmt::Display) -> Self {
        Self::Panic(format!("{what} (a defect of hydrozoa: report it with the program's output)"))
    }

    /// A conversion that failed.
    pub(crate) fn convert(
        expected: impl Into<String>,
        found: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Convert { expected: expected.into(), found: found.into(), reason: reason.into() }
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    /// As [`Error::host`].
    fn from(source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::host(source)
    }
}

#[cfg(feature = "anyhow")]
impl From<anyhow::Error> for Error {
    /// As [`Error::host`]: an [`Error`] of this crate without context comes out again.
    fn from(error: anyhow::Error) -> Self {
        let outermost = error.chain().next();
        match outermost.is_some_and(|outermost| outermost.is::<Self>()) {
            true => error.downcast().unwrap_or_else(Self::host),
            false => Self::host(error),
        }
    }
}

fn crashed(report: &str) -> String {
    let first = report.lines().next().unwrap_or_default();
    let what = first.strip_prefix("hydrozoa: ").unwrap_or("a crash");
    format!("the interpreter has crashed (Error::Crashed has the report): {what}")
}

fn deadline(traceback: &str) -> &'static str {
    if traceback.is_empty() {
        return "the call did not begin before its deadline: others kept its interpreter's GIL (call it again with more \
                time, or on an interpreter of its own: Pool::acquire_timeout)";
    }
    "the call has exceeded its deadline (Error::traceback says where it was; Session::with_deadline sets the limit)"
}

fn in_use(interpreter: &str, sessions: usize, waited: Duration) -> String {
    let why = match sessions {
        0 => {
            "a handle, a pool, a tensor or a buffer still has it, or its last code runs".to_owned()
        }
        1 => "a session on it is open".to_owned(),
        many => format!("{many} sessions on it are open"),
    };
    let waited = waited.as_millis();
    format!(
        "{interpreter} has not ended within {waited} ms: {why}; drop what is left, and it ends by itself"
    )
}

fn busy(interpreters: usize, sessions: usize, waited: Duration) -> String {
    let after = match waited.as_millis() {
        0 => String::new(),
        waited => format!(", also after {waited} ms"),
    };
    let end = "end sessions sooner, wait longer (Pool::acquire_timeout)";
    match sessions {
        1 => format!(
            "all {interpreters} interpreters are leased{after}: {end}, allow several on one (Builder::max_sessions), or add \
             some (Pool::resize)"
        ),
        many => format!(
            "all {interpreters} interpreters have {many} sessions{after}: {end}, allow more (Builder::max_sessions), or add \
             interpreters (Pool::resize)"
        ),
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
}

fn list(candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return ": there was nothing to look at; name one with Builder::python".to_owned();
    }
    candidates.iter().map(|candidate| format!("\n  {candidate}")).collect()
}

//! The kinds of failures.

use runtime::Error;

/// The return value of a function. The numbers do not change, and new ones may be added after them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hz_status {
    /// Success.
    HZ_OK = 0,
    /// An argument is NULL, or the function does not accept its value.
    HZ_ERROR_INVALID_ARGUMENT = 1,
    /// A session was used by a thread that did not acquire it.
    HZ_ERROR_THREAD = 2,
    /// Python code raised an exception: hz_error_type_name, hz_error_traceback, hz_error_exception.
    HZ_ERROR_PYTHON = 3,
    /// The call was interrupted by hz_interrupt_handle_interrupt.
    HZ_ERROR_INTERRUPTED = 4,
    /// The call has exceeded the time limit of its session, or did not begin within it.
    HZ_ERROR_DEADLINE = 5,
    /// An object cannot be converted to the requested form.
    HZ_ERROR_CONVERT = 6,
    /// An object was used in another interpreter than its own.
    HZ_ERROR_FOREIGN = 7,
    /// The interpreter of an object has ended, and the object with it.
    HZ_ERROR_ENDED = 8,
    /// All interpreters are at their limit of sessions.
    HZ_ERROR_BUSY = 9,
    /// An interpreter that was to end is still in use.
    HZ_ERROR_IN_USE = 10,
    /// The pool has no interpreter with this index.
    HZ_ERROR_NO_SUCH_INTERPRETER = 11,
    /// No usable Python was found.
    HZ_ERROR_PYTHON_NOT_FOUND = 12,
    /// An interpreter did not start.
    HZ_ERROR_START = 13,
    /// A setting that cannot be met.
    HZ_ERROR_CONFIGURATION = 14,
    /// A package is unusable, or lacks the requested item.
    HZ_ERROR_PACKAGE = 15,
    /// The machine refuses: the thread's stack is too small, a device or a file cannot be used.
    HZ_ERROR_SYSTEM = 16,
    /// A defect of the library. The process is sound; free the objects that the call used.
    HZ_ERROR_PANIC = 17,
    /// Code of the interpreter has crashed, in this call or before, and the crash was contained: hz_builder_contain_crashes,
    /// hz_error_report. Free the interpreter's sessions and objects, and use another one.
    HZ_ERROR_CRASHED = 18,
}

impl hz_status {
    /// The status of an error of the runtime.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Python { .. } | Error::Host(_) => Self::HZ_ERROR_PYTHON,
            Error::Interrupted { .. } => Self::HZ_ERROR_INTERRUPTED,
            Error::Deadline { .. } => Self::HZ_ERROR_DEADLINE,
            Error::Convert { .. } => Self::HZ_ERROR_CONVERT,
            Error::Foreign { .. } => Self::HZ_ERROR_FOREIGN,
            Error::Ended { .. } => Self::HZ_ERROR_ENDED,
            Error::Crashed { .. } => Self::HZ_ERROR_CRASHED,
            Error::Busy { .. } => Self::HZ_ERROR_BUSY,
            Error::InUse { .. } => Self::HZ_ERROR_IN_USE,
            Error::NoSuchInterpreter { .. } => Self::HZ_ERROR_NO_SUCH_INTERPRETER,
            Error::PythonNotFound { .. } => Self::HZ_ERROR_PYTHON_NOT_FOUND,
            Error::Start { .. } | Error::Load(_) | Error::Payload { .. } => Self::HZ_ERROR_START,
            Error::Configuration(_) | Error::Imports(_) => Self::HZ_ERROR_CONFIGURATION,
            Error::Package(_) => Self::HZ_ERROR_PACKAGE,
            Error::Panic(_) => Self::HZ_ERROR_PANIC,
            // Stacks, devices, files; and what the runtime may add.
            _ => Self::HZ_ERROR_SYSTEM,
        }
    }
}

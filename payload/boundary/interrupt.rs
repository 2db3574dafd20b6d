//! Exceptions that the host raises in threads that run Python code.

use std::ffi::c_int;

/// Why the host interrupts a thread.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt(pub c_int);

impl Interrupt {
    /// It does not: exceptions not yet raised are taken back.
    pub const NONE: Self = Self(0);
    /// The application has asked for it.
    pub const HANDLE: Self = Self(1);
    /// The deadline of a call has passed.
    pub const DEADLINE: Self = Self(2);

    /// The module of the exceptions' classes.
    pub const MODULE: &str = "_hydrozoa.interrupts";

    /// The name of the exception's class in that module.
    pub const fn class(self) -> Option<&'static str> {
        match self {
            Self::HANDLE => Some("Interrupted"),
            Self::DEADLINE => Some("DeadlineExceeded"),
            _ => None,
        }
    }

    /// The reason for which an exception of this qualified name is raised.
    pub fn of(type_name: &str) -> Option<Self> {
        let class = type_name.strip_prefix(Self::MODULE)?.strip_prefix('.')?;
        [Self::HANDLE, Self::DEADLINE].into_iter().find(|reason| reason.class() == Some(class))
    }
}

/// How far an exception is on its way to a thread.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress(pub c_int);

impl Progress {
    /// Nothing was done yet. The payload may have released the GIL.
    pub const NEW: Self = Self(0);
    /// It waits for the thread, which runs no Python code that the payload has seen.
    pub const WAITS: Self = Self(1);
    /// It waits: the thread runs Python code in which nothing may be raised.
    pub const HELD: Self = Self(2);
    /// The thread has it, or raises it when it looks next.
    pub const DONE: Self = Self(3);
}

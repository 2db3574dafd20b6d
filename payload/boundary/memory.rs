//! The answers of the table's functions about an interpreter's memory.

use crate::table::Text;

/// Addresses of arenas of Python's objects.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The first.
    pub start: usize,
    /// How many.
    pub length: usize,
}

/// The estimated memory of one package's objects.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PackageSize {
    /// The first part of its modules' names. Empty: the objects that no module leads to.
    pub name: Text,
    /// The sum of their `sys.getsizeof`.
    pub bytes: usize,
    /// How many they are.
    pub objects: usize,
}

/// Those that could change Python's memory although another thread holds the GIL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Others {
    /// Threads with a state in the interpreter that are neither the host's nor the interpreter's main thread.
    pub threads: usize,
    /// Sub-interpreters.
    pub interpreters: usize,
}

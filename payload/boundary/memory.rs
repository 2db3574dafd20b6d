//! What functions of the table say about an interpreter's memory.

use crate::table::Text;
use std::ffi::c_long;

/// What an interpreter's allocator uses a range of addresses for.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose(pub u32);

impl Purpose {
    /// Python's raw allocator (`PYMEM_DOMAIN_RAW`), and all that asks it.
    pub const RAW: Self = Self(0);
    /// The arenas of Python's objects.
    pub const ARENAS: Self = Self(1);
}

/// Addresses that an interpreter's allocator has. Not all of them need to be in use, or mapped.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// What for.
    pub purpose: Purpose,
    /// The first.
    pub start: usize,
    /// How many.
    pub length: usize,
}

/// What the objects of one package take, by an estimate.
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

/// Who could change Python's memory although another thread holds the GIL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Others {
    /// Threads with a state in the interpreter that are neither the host's nor the interpreter's main thread.
    pub threads: usize,
    /// Sub-interpreters.
    pub interpreters: usize,
}

/// Two of the three thresholds of Python's garbage collector (`gc.get_threshold`). 0 stands for none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// New containers from which on it looks through the young ones.
    pub first: c_long,
    /// Collections of the second generation from which on it looks through all objects.
    pub last: c_long,
}

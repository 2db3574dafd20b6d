//! A sealed application, as an interpreter starts from it.

use crate::table::Text;
use std::ffi::c_int;

/// A module whose code lies in the file of a sealed application.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FrozenModule {
    /// Its name.
    pub name: Text,
    /// 1: a package.
    pub is_package: c_int,
    /// Its code, as marshal writes it. It lives as long as the process.
    pub code: Text,
}

/// A sealed application: a file that an interpreter starts from, and reads its modules from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// The whole file, mapped for reading as long as the process runs.
    pub file: Text,
    /// Where the finder's dictionary begins in the file.
    pub boot: usize,
    /// Its length in bytes.
    pub boot_length: usize,
    /// The future `sys.prefix`, below which all paths in the file lie.
    pub root: Text,
    /// The future `sys.path`.
    pub paths: *const Text,
    /// Number of `paths`.
    pub path_count: usize,
    /// Modules that Python needs before it can use the finder, and the finder.
    pub frozen: *const FrozenModule,
    /// Number of `frozen`.
    pub frozen_count: usize,
    /// 1: a command runs what the application was sealed for, and all arguments are its own.
    pub entry: c_int,
}

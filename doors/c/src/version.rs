//! Which library this is.

use std::ffi::{CStr, c_char};

/// The version of the interface that this header describes. It is raised when a program that was built with an earlier
/// header cannot use the library, and then the soname changes too.
pub const HZ_ABI_VERSION: u32 = 0;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL"),
    };

/// The version of the library that runs, such as "0.1.0". It lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn hz_version() -> *const c_char {
    VERSION.as_ptr()
}

/// HZ_ABI_VERSION of the library that runs.
#[unsafe(no_mangle)]
pub extern "C" fn hz_abi_version() -> u32 {
    HZ_ABI_VERSION
}

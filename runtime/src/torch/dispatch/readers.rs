//! Functions that only read operators' tables of kernels: each does what libtorch's does, while nobody registers.
//!
//! libtorch reads these tables without a lock: in a process with one GIL nobody registers meanwhile. Here another
//! interpreter may. So whoever reads for a replica holds the lock of those who register, here and in
//! [`super::introspection`]. Needed in every release.

use std::ffi::c_void;

use super::super::adapter::{lock, symbols};
use super::super::cxx::{CxxString, CxxVector};
use super::super::exported::Answer;
use super::super::symbols::EXPORTS;
use super::registry::REGISTRY;

/// Defines a function for each symbol, which calls libtorch's under the lock, and `interpositions`.
macro_rules! readers {
    ($($symbol:ident: fn($($parameter:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// What a domain interposes.
        pub(super) fn interpositions() -> Vec<Answer> {
            // SAFETY: each function does what its symbol promises; the compiler compares the types.
            unsafe { vec![$(EXPORTS.$symbol.means($symbol).answer()),*] }
        }

        $(unsafe extern "C-unwind" fn $symbol($($parameter: $type),*) $(-> $result)? {
            let _registry = lock(&REGISTRY);
            // SAFETY: the caller's arguments.
            unsafe { (symbols().$symbol)($($parameter),*) }
        })*
    };
}

readers! {
    entry_kernel: fn(entry: *const c_void, key: u16) -> *const c_void;
    entry_computed_kernel: fn(result: *mut c_void, entry: *const c_void, key: u16) -> *mut c_void;
    entry_state: fn(result: *mut CxxString, entry: *const c_void) -> *mut CxxString;
    entry_computed_table: fn(result: *mut CxxString, entry: *const c_void) -> *mut CxxString;
    entry_check: fn(entry: *const c_void);
    dispatcher_check: fn(dispatcher: *const c_void);
    dispatcher_dangling: fn(result: *mut CxxVector, dispatcher: *const c_void) -> *mut CxxVector;
}

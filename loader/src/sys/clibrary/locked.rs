//! Functions of the C library that one domain at a time calls, and others while no thread forks.

use std::ffi::{c_char, c_int};

use libc::utmpx as Login;

use super::listings::alone;

/// Defines a module with functions that call the C library's of the same names under `lock`, and with `answers`, which lists
/// them.
macro_rules! under_lock {
    ($module:ident, $lock:path: $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod $module {
            use super::*;

            pub mod theirs {
                use super::*;

                unsafe extern "C" {
                    $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
                }
            }

            $(
                /// The C library's function of that name.
                ///
                /// # Safety
                /// As for that function.
                pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                    // SAFETY: the caller's promise.
                    $lock(|| unsafe { theirs::$name($($argument),*) })
                }
            )*

            pub fn answers(all: &mut Vec<crate::sys::clibrary::Answer>) {
                for (name, target) in [$((stringify!($name), $name as *const std::ffi::c_void)),*] {
                    let context = crate::sys::clibrary::Context::None;
                    all.push(crate::sys::clibrary::Answer { name, target, context });
                }
            }
        }
    };
}

pub(super) use under_lock;

// `rpmatch` keeps the expressions of the locale that it was last called with (stdlib/rpmatch.c).
under_lock! {
    at_a_time, alone:
    fn innetgr(group: *const c_char, host: *const c_char, user: *const c_char, domain: *const c_char) -> c_int;
    fn rpmatch(answer: *const c_char) -> c_int;
    fn ttyslot() -> c_int;
    fn login(entry: *const Login);
    fn logout(line: *const c_char) -> c_int;
    fn logwtmp(line: *const c_char, name: *const c_char, host: *const c_char);
    fn updwtmp(file: *const c_char, entry: *const Login);
    fn updwtmpx(file: *const c_char, entry: *const Login);
}

pub(super) use at_a_time::answers;

//! Functions that replace the C library's for a domain.

use std::ffi::c_void;

/// Types of the C library's in signatures. They have names here so that readers of a macro's words take them for no calls.
pub(crate) mod types {
    pub(crate) use libc::{
        id_t, idtype_t, lconv, off_t, pid_t, rusage, siginfo_t, termios, winsize,
    };
}

/// A function that replaces the C library's of that name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub name: &'static str,
    pub target: *const c_void,
    /// How many arguments it has before the context of its thunk. All of them are integers and pointers.
    pub arguments: usize,
}

/// Defines functions, and a function that lists each of them for the C library's names before it. They have the arguments
/// of the C library's, and then the context of their thunk.
macro_rules! answering {
    ($list_visibility:vis fn $list:ident, $context:ident: $context_type:ty; $(
        $(#[$attribute:meta])*
        $($symbol:literal),+ =>
        $visibility:vis extern $abi:literal fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?
        $body:block
    )*) => {
        /// The functions below.
        $list_visibility fn $list() -> Vec<crate::sys::answering::Function> {
            let mut all = Vec::new();
            $({
                let target = $name as *const std::ffi::c_void;
                let arguments = <[&str]>::len(&[$(stringify!($argument)),*]);
                all.extend([$($symbol),+].map(|name| crate::sys::answering::Function { name, target, arguments }));
            })*
            all
        }

        $(
            $(#[$attribute])*
            ///
            /// # Safety
            /// As for the C library's function. Called through its thunk.
            #[allow(unused_unsafe, reason = "some bodies need no promise")]
            $visibility unsafe extern $abi fn $name($($argument: $type,)* $context: $context_type) $(-> $result)? {
                // SAFETY: the caller's promise.
                unsafe { $body }
            }
        )*
    };
}

pub(crate) use answering;

//! For a library that is preloaded and answers the `dl*` names of a program by this crate, like
//! `loader/shim`: the way to glibc's own functions behind its exports.

use std::ffi::c_void;

use crate::sys::functions;
use crate::unwind;

/// From now on this crate calls what libc.so.6 itself defines, whatever the names bind to. Call it
/// before anything else of this crate. False if libc's symbol table cannot be read.
pub fn bypass_interposers() -> bool {
    functions::bypass_interposers().is_some()
}

/// The address of glibc's own `dl*` function of this name.
pub fn system_function(name: &str) -> Option<*const c_void> {
    let functions = functions::functions();
    Some(match name {
        "dlopen" => functions.dlopen as *const c_void,
        "dlsym" => functions.dlsym as *const c_void,
        "dlvsym" => functions.dlvsym as *const c_void,
        "dlclose" => functions.dlclose as *const c_void,
        "dlerror" => functions.dlerror as *const c_void,
        "dladdr" => functions.dladdr as *const c_void,
        "dladdr1" => functions.dladdr1 as *const c_void,
        "dlinfo" => functions.dlinfo as *const c_void,
        "dl_iterate_phdr" => functions.dl_iterate_phdr as *const c_void,
        "_dl_find_object" => unwind::system_find_object()? as *const c_void,
        _ => return None,
    })
}

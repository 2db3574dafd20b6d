//! glibc's own functions behind the exports of a preloaded library such as `loader/shim`, which answers
//! the `dl*` names of a program by this crate.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use crate::image::symbols::Name;
use crate::sys::dynamic::LoadedObject;
use crate::sys::functions::{self, *};
use crate::system;
use crate::visible::unwind;

/// Makes this crate call the functions that libc.so.6 itself defines, whatever their names bind to. Call
/// it before any other function of this crate. False if libc's symbol table cannot be read.
pub fn bypass_interposers() -> bool {
    functions::replace(find).is_some()
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

fn find() -> Option<Functions> {
    let base = functions::bias_of_libc()?;
    // SAFETY: libc.so.6 begins with its ELF header, mapped at its load bias, and is never unloaded.
    let header = unsafe { &*ptr::with_exposed_provenance::<libc::Elf64_Ehdr>(base) };
    let table = system::symbols_in_memory(&LoadedObject {
        base,
        name: c"libc.so.6".into(),
        headers: base + header.e_phoff as usize,
        header_count: header.e_phnum.into(),
        tls_module: 0,
    })?;
    let address = |name: &str| {
        let (_, symbol) = table.lookup(Name::new(name.as_bytes()), None, true)?;
        Some(ptr::with_exposed_provenance::<c_void>(base.wrapping_add(symbol.value as usize)))
    };
    // SAFETY: each name is a function of libc with the signature of its field.
    unsafe {
        Some(Functions {
            dlopen: transmute::<*const c_void, Open>(address("dlopen")?),
            dlclose: transmute::<*const c_void, Close>(address("dlclose")?),
            dlsym: transmute::<*const c_void, Symbol>(address("dlsym")?),
            dlvsym: transmute::<*const c_void, VersionedSymbol>(address("dlvsym")?),
            dlerror: transmute::<*const c_void, LastError>(address("dlerror")?),
            dladdr: transmute::<*const c_void, Address>(address("dladdr")?),
            dladdr1: transmute::<*const c_void, AddressAndMore>(address("dladdr1")?),
            dlinfo: transmute::<*const c_void, Information>(address("dlinfo")?),
            dl_iterate_phdr: transmute::<*const c_void, Iterate>(address("dl_iterate_phdr")?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libc_defines_is_what_the_names_bind_to() {
        let found = find().expect("the test process runs on glibc 2.34 or later");
        assert_eq!(found.dlopen as usize, libc::dlopen as *const () as usize);
        assert_eq!(found.dl_iterate_phdr as usize, libc::dl_iterate_phdr as *const () as usize);
    }
}

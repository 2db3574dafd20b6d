//! Exceptions through replicas. Unwinders call libgcc, libgcc calls `_dl_find_object` (glibc 2.35) or
//! `dl_iterate_phdr`, and this module answers.
//!
//! libgcc_s's calls are redirected in its own global offset table, because a library cannot rely on the
//! executable to export our functions. `__register_frame` is not used: it would put every throw of the
//! process behind one lock (GCC before 13).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::error::{Error, Result};
use crate::image::symbols::Name;
use crate::sys::dynamic::SystemHandle;
use crate::sys::lock::Once;
use crate::system::SYSTEM;
use crate::system::System;
use crate::visible::iterate;
use crate::visible::publish;
use crate::visible::redirect::redirect;

/// `struct dl_find_object` (`<dlfcn.h>` of glibc 2.35) on machines without a separate data base.
#[repr(C)]
#[derive(Default)]
pub(crate) struct FoundObject {
    flags: u64,
    map_start: usize,
    map_end: usize,
    /// Address of its `struct link_map`.
    pub link_map: usize,
    /// Address of `.eh_frame_hdr`.
    pub unwind_header: usize,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut FoundObject) -> c_int;

/// glibc's function; null if it lacks one.
static SYSTEM_FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// `_dl_find_object` for all code, replicas and system objects.
///
/// # Safety
/// `result` points to a `struct dl_find_object`.
pub(crate) unsafe extern "C" fn find_object(
    address: *mut c_void,
    result: *mut FoundObject,
) -> c_int {
    let Some(range) = publish::find_range(address as usize) else {
        let system = SYSTEM_FIND_OBJECT.load(Ordering::Relaxed);
        if system.is_null() {
            return -1;
        }
        // SAFETY: the pointer is glibc's function of this signature; arguments are the caller's.
        return unsafe { std::mem::transmute::<*mut c_void, FindObject>(system)(address, result) };
    };
    // An object without unwind information cannot be unwound through: -1 tells libgcc so.
    if range.unwind_header == 0 {
        return -1;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (*result).flags = 0;
        (*result).map_start = range.start;
        (*result).map_end = range.end;
        (*result).link_map = range.link_map;
        (*result).unwind_header = range.unwind_header;
    }
    0
}

/// The answer of [`find_object`] for an address. It takes no lock and allocates nothing, so a handler of signals may ask.
pub(crate) fn object_at(address: usize) -> Option<FoundObject> {
    let mut found = FoundObject::default();
    let address = std::ptr::without_provenance_mut(address);
    // SAFETY: the place is valid for the call.
    (unsafe { find_object(address, &mut found) } == 0).then_some(found)
}

/// The functions that libgcc calls, and ours.
fn replacements() -> [(&'static [u8], usize); 2] {
    [
        (b"_dl_find_object", find_object as *const () as usize),
        (b"dl_iterate_phdr", iterate::iterate_phdr as *const () as usize),
    ]
}

/// glibc's `_dl_find_object`, as libc itself defines it: the name may bind to another definition.
pub(crate) fn system_find_object() -> Option<usize> {
    let libc = SYSTEM.by_name("libc.so.6")?;
    let (_, symbol) = libc.symbols.lookup(Name::new(b"_dl_find_object"), None, true)?;
    Some(libc.base.wrapping_add(symbol.value as usize))
}

/// Redirects libgcc_s, once per process.
pub(crate) fn install(system: &System) -> Result<()> {
    static DONE: Once<()> = Once::new();
    DONE.get_or_try_init(|| {
        let address = system_find_object().unwrap_or(0);
        SYSTEM_FIND_OBJECT.store(address as *mut c_void, Ordering::Relaxed);
        let libgcc = match system.by_name("libgcc_s.so.1") {
            Some(object) => object,
            None => {
                let handle =
                    SystemHandle::open(c"libgcc_s.so.1", libc::RTLD_LAZY).map_err(|reason| {
                        Error::Unsupported(format!("libgcc_s.so.1 cannot be loaded: {reason}; install libgcc"))
                    })?;
                handle.keep();
                system.by_name("libgcc_s.so.1").ok_or_else(|| {
                    Error::Unsupported("libgcc_s.so.1 is not in the list of loaded objects".into())
                })?
            }
        };
            let replacements = replacements();
        let ours = |name: &[u8]| {
            replacements.iter().find(|(known, _)| *known == name).map(|(_, address)| *address)
        };
        if redirect(&libgcc, ours)? == 0 {
            return Err(Error::Unsupported(format!(
                "{}: it asks neither _dl_find_object nor dl_iterate_phdr, so exceptions could not cross replicas; \
                 install the libgcc of gcc 5 or newer",
                libgcc.path.display()
            )));
        }
        Ok(())
    })?;
    Ok(())
}

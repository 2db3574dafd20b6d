//! `dl_iterate_phdr`: the system's objects, then ours.
//!
//! Code of a domain gets the objects of its domain first. So a search for a library by name finds the domain's own.
//! Unwinders need all of them: frames of several domains may be on one stack.

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use crate::id::DomainId;
use crate::sys::functions::functions;
use crate::visible::publish;

type Callback = unsafe extern "C-unwind" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;

struct Pass {
    callback: Callback,
    data: *mut c_void,
    added: u64,
    removed: u64,
}

/// `dl_iterate_phdr(callback, data)` over all objects of the process. The counters of additions
/// and removals are the sums of both loaders', so that a cache keyed by them notices ours.
///
/// # Safety
/// As dl_iterate_phdr(3).
pub(crate) unsafe extern "C-unwind" fn iterate_phdr(
    callback: Option<Callback>,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { iterate(callback, data, None) }
}

/// As [`iterate_phdr`], for code of the domain `context`.
///
/// # Safety
/// As dl_iterate_phdr(3).
pub(crate) unsafe extern "C-unwind" fn iterate_phdr_in(
    callback: Option<Callback>,
    data: *mut c_void,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { iterate(callback, data, Some(DomainId(context as u32))) }
}

/// # Safety
/// As dl_iterate_phdr(3).
unsafe fn iterate(
    callback: Option<Callback>,
    data: *mut c_void,
    domain: Option<DomainId>,
) -> c_int {
    unsafe extern "C-unwind" fn adjust(
        info: *mut libc::dl_phdr_info,
        size: usize,
        pass: *mut c_void,
    ) -> c_int {
        // SAFETY: glibc passes a valid record, and `pass` is the caller's below.
        unsafe {
            let pass = &*pass.cast::<Pass>();
            let mut info = *info;
            info.dlpi_adds += pass.added;
            info.dlpi_subs += pass.removed;
            (pass.callback)(&mut info, size, pass.data)
        }
    }
    let Some(callback) = callback else { return 0 };
    let (mut replicas, added, removed) = publish::snapshot();
    if let Some(domain) = domain {
        replicas.sort_by_key(|replica| replica.domain != domain);
    }
    let mut pass = Pass { callback, data, added, removed };
    // SAFETY: `adjust` has the signature and `pass` outlives the call.
    let status = unsafe { (functions().dl_iterate_phdr)(Some(adjust), (&raw mut pass).cast()) };
    if status != 0 {
        return status;
    }
    let (system_added, system_removed) = crate::sys::dynamic::generation();
    for replica in replicas {
        let path = replica.image.public_path();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: all fields are integers or pointers, for which zero is a value.
        let mut info: libc::dl_phdr_info = unsafe { std::mem::zeroed() };
        info.dlpi_addr = replica.bias as u64;
        info.dlpi_name = name.as_ptr();
        info.dlpi_phdr = replica.image.program_headers.as_ptr();
        info.dlpi_phnum = replica.image.program_headers.len() as u16;
        info.dlpi_tls_modid = replica.tls_module();
        info.dlpi_tls_data = replica.tls_data().unwrap_or(0) as *mut c_void;
        info.dlpi_adds = system_added + added;
        info.dlpi_subs = system_removed + removed;
        // SAFETY: the caller's function, called as glibc calls it.
        let status = unsafe { callback(&mut info, size_of::<libc::dl_phdr_info>(), data) };
        if status != 0 {
            return status;
        }
    }
    0
}

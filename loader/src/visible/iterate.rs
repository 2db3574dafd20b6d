//! `dl_iterate_phdr`: the system's objects, then ours.
//!
//! Code of a domain gets the objects of its domain first. So a search for a library by name finds the domain's own.
//! Unwinders need all of them: frames of several domains may be on one stack.

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::id::DomainId;
use crate::replica::Replica;
use crate::sys::functions::functions;
use crate::visible::publish;

type Callback = unsafe extern "C-unwind" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;

struct Pass {
    callback: Callback,
    data: *mut c_void,
    replicas: Vec<Arc<Replica>>,
    /// The numbers of objects that the loader has added and removed.
    added: u64,
    removed: u64,
    /// The end of the pass.
    status: c_int,
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
    let Some(callback) = callback else { return 0 };
    let (mut replicas, added, removed) = publish::snapshot();
    if let Some(domain) = domain {
        replicas.sort_by_key(|replica| replica.domain != domain);
    }
    let mut pass = Pass { callback, data, replicas, added, removed, status: 0 };
    // SAFETY: `locked` has the signature and `pass` outlives the call.
    unsafe { (functions().dl_iterate_phdr)(Some(locked), (&raw mut pass).cast()) };
    pass.status
}

/// The whole pass, at the first object of an outer one: so it has glibc's lock, which is recursive, also for our objects. Callbacks rely
/// on it that no two of them run at once. That of libgcc does where glibc has no `_dl_find_object`: it keeps a list (`frame_hdr_cache`
/// in unwind-dw2-fde-dip.c).
unsafe extern "C-unwind" fn locked(
    first: *mut libc::dl_phdr_info,
    _size: usize,
    pass: *mut c_void,
) -> c_int {
    // SAFETY: `pass` is the caller's, and the record is glibc's.
    unsafe {
        let pass = pass.cast::<Pass>();
        let counters = ((*first).dlpi_adds, (*first).dlpi_subs);
        let status = (functions().dl_iterate_phdr)(Some(adjust), pass.cast());
        (*pass).status = if status == 0 { over_replicas(&*pass, counters) } else { status };
    }
    // The outer pass is over.
    1
}

/// Reports an object of the system.
unsafe extern "C-unwind" fn adjust(
    info: *mut libc::dl_phdr_info,
    size: usize,
    pass: *mut c_void,
) -> c_int {
    // SAFETY: glibc passes a valid record, and `pass` is the caller's.
    unsafe {
        let pass = &*pass.cast::<Pass>();
        let mut info = *info;
        info.dlpi_adds += pass.added;
        info.dlpi_subs += pass.removed;
        (pass.callback)(&mut info, size, pass.data)
    }
}

/// Reports our objects. The counters are those of the system's objects.
///
/// # Safety
/// As dl_iterate_phdr(3).
unsafe fn over_replicas(pass: &Pass, counters: (u64, u64)) -> c_int {
    for replica in &pass.replicas {
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
        info.dlpi_adds = counters.0 + pass.added;
        info.dlpi_subs = counters.1 + pass.removed;
        // SAFETY: the caller's function, called as glibc calls it.
        let status =
            unsafe { (pass.callback)(&mut info, size_of::<libc::dl_phdr_info>(), pass.data) };
        if status != 0 {
            return status;
        }
    }
    0
}

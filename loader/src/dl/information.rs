//! `dlinfo`: information about a handle.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

use super::handle::{self, Handle};
use super::{clear_error, set_error};
use crate::domain;
use crate::id::DomainId;
use crate::replica::Replica;
use crate::sys::functions::functions;
use crate::system::search;

// Requests that the libc crate lacks (<dlfcn.h>).
const SEARCH: c_int = 4;
const SEARCH_SIZE: c_int = 5;
const ORIGIN: c_int = 6;
const TLS_MODULE: c_int = 9;
const TLS_DATA: c_int = 10;
const PROGRAM_HEADERS: c_int = 11;

/// `Dl_serpath`.
#[repr(C)]
struct SearchPath {
    name: *mut c_char,
    flags: c_uint,
}

/// `Dl_serinfo`, followed by `count` records of [`SearchPath`] and then by their names.
#[repr(C)]
struct SearchInfo {
    size: usize,
    count: c_uint,
    paths: [SearchPath; 0],
}

/// `dlinfo(handle, request, place)`.
///
/// # Safety
/// `place` fits `request`, as in dlinfo(3).
pub(super) unsafe extern "C" fn dlinfo(
    handle: *mut c_void,
    request: c_int,
    place: *mut c_void,
    context: usize,
) -> c_int {
    let Some(domain) = domain::by_id(DomainId(context as u32)) else {
        set_error("dlinfo: the domain was closed");
        return -1;
    };
    clear_error();
    if handle.is_null() {
        set_error("dlinfo: no handle was given");
        return -1;
    }
    let resolved = handle::resolve(&domain, handle);
    if matches!(resolved, Handle::Domain(_)) && request == libc::RTLD_DI_LINKMAP {
        // SAFETY: the caller's promise: the request wants a pointer.
        unsafe { *place.cast::<*mut c_void>() = handle };
        return 0;
    }
    let ours = match resolved {
        Handle::Replica(_, replica) => Some(replica),
        Handle::Domain(domain) => domain.0.state.lock().entries.replicas().next().cloned(),
        Handle::System => None,
    };
    let Some(replica) = ours else {
        // SAFETY: the caller's promise.
        return unsafe { (functions().dlinfo)(handle, request, place) };
    };
    // SAFETY: the caller's promise: each request's place has room for its answer.
    unsafe {
        match request {
            // All domains lie in the system loader's base namespace.
            libc::RTLD_DI_LMID => *place.cast::<c_long>() = 0,
            libc::RTLD_DI_LINKMAP => *place.cast::<usize>() = replica.range().link_map,
            ORIGIN => copy_origin(&replica, place.cast()),
            SEARCH | SEARCH_SIZE => {
                if !search_info(&replica, request == SEARCH_SIZE, place.cast()) {
                    set_error("dlinfo: RTLD_DI_SERINFO wants what RTLD_DI_SERINFOSIZE has filled");
                    return -1;
                }
            }
            TLS_MODULE => *place.cast::<usize>() = replica.tls_module(),
            TLS_DATA => *place.cast::<usize>() = replica.tls_data().unwrap_or(0),
            PROGRAM_HEADERS => {
                let headers = &replica.image.program_headers;
                *place.cast::<*const libc::Elf64_Phdr>() = headers.as_ptr();
                return headers.len() as c_int;
            }
            _ => {
                set_error("unsupported dlinfo request");
                return -1;
            }
        }
    }
    0
}

/// # Safety
/// `place` has room for the directory's path and a NUL.
unsafe fn copy_origin(replica: &Replica, place: *mut c_char) {
    let origin = replica.image.origin().as_os_str().as_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        ptr::copy_nonoverlapping(origin.as_ptr().cast(), place, origin.len());
        *place.add(origin.len()) = 0;
    }
}

/// Writes the search path: its size, or all of it. False if the room is not what the size said.
///
/// # Safety
/// `info` points to a `Dl_serinfo`; unless `size_only`, one of the size that it states.
unsafe fn search_info(replica: &Replica, size_only: bool, info: *mut SearchInfo) -> bool {
    let directories = search::directories_of(&replica.search_chain());
    let names: Vec<CString> = directories
        .into_iter()
        .filter_map(|path: PathBuf| CString::new(path.into_os_string().into_encoded_bytes()).ok())
        .collect();
    let head = size_of::<SearchInfo>() + names.len() * size_of::<SearchPath>();
    let size = names.iter().fold(head, |size, name| size + name.as_bytes_with_nul().len());
    // SAFETY: the caller's promise; the names lie behind the records, in the size just computed.
    unsafe {
        if size_only {
            ((*info).size, (*info).count) = (size, names.len() as c_uint);
            return true;
        }
        if (*info).size != size || (*info).count as usize != names.len() {
            return false;
        }
        let mut text = info.cast::<c_char>().add(head);
        for (index, name) in names.iter().enumerate() {
            let bytes = name.as_bytes_with_nul();
            ptr::copy_nonoverlapping(bytes.as_ptr().cast(), text, bytes.len());
            let path = (&raw mut (*info).paths).cast::<SearchPath>().add(index);
            path.write(SearchPath { name: text, flags: 0 });
            text = text.add(bytes.len());
        }
    }
    true
}

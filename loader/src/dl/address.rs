//! `dladdr`, `dladdr1`, `dlinfo`: from an address or a handle to what it belongs to.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use super::handle::{self, Handle};
use super::set_error;
use crate::domain::{self, DomainId, Replica};
use crate::publish;
use crate::sys::functions::functions;

/// RTLD_DL_SYMENT and RTLD_DL_LINKMAP of `dladdr1(3)`.
const SYMBOL_ENTRY: c_int = 1;
const LINK_MAP: c_int = 2;

/// `dladdr(address, info)`: returns non-zero if an object holds the address.
///
/// # Safety
/// `info` points to a `Dl_info`.
pub(super) unsafe extern "C" fn dladdr(address: *const c_void, info: *mut libc::Dl_info) -> c_int {
    let Some(replica) = publish::find(address as usize) else {
        // SAFETY: the caller's promise.
        return unsafe { (functions().dladdr)(address, info) };
    };
    let symbol =
        replica.image.symbols.nearest((address as usize).wrapping_sub(replica.bias) as u64);
    let named =
        symbol.and_then(|symbol| Some((kept(replica.image.symbols.name(&symbol)?), symbol)));
    // SAFETY: the caller's promise.
    unsafe {
        (*info).dli_fname = kept(replica.image.path.as_os_str().as_bytes());
        (*info).dli_fbase = replica.base as *mut c_void;
        (*info).dli_sname = named.as_ref().map_or(ptr::null(), |named| named.0);
        (*info).dli_saddr = named
            .map_or(ptr::null_mut(), |(_, symbol)| replica.symbol_address(&symbol) as *mut c_void);
    }
    1
}

/// `dladdr1(address, info, extra, flags)`.
///
/// # Safety
/// `info` points to a `Dl_info`, `extra` to a pointer.
pub(super) unsafe extern "C" fn dladdr1(
    address: *const c_void,
    info: *mut libc::Dl_info,
    extra: *mut *mut c_void,
    flags: c_int,
) -> c_int {
    let Some(range) = publish::find_range(address as usize) else {
        // SAFETY: the caller's promise.
        return unsafe { (functions().dladdr1)(address, info, extra, flags) };
    };
    // SAFETY: the caller's promise.
    unsafe {
        match flags {
            LINK_MAP => *extra = range.link_map as *mut c_void,
            SYMBOL_ENTRY => *extra = ptr::null_mut(),
            _ => {}
        }
        dladdr(address, info)
    }
}

/// `dlinfo(handle, request, place)`: RTLD_DI_LINKMAP and RTLD_DI_ORIGIN of replicas.
///
/// # Safety
/// `place` is what dlinfo(3) wants for `request`.
pub(super) unsafe extern "C" fn dlinfo(
    handle: *mut c_void,
    request: c_int,
    place: *mut c_void,
    context: usize,
) -> c_int {
    const ORIGIN: c_int = 6;
    let Some(domain) = domain::by_id(DomainId(context as u32)) else {
        set_error("dlinfo: the domain was closed");
        return -1;
    };
    let ours = match handle::resolve(&domain, handle) {
        Handle::Replica(_, replica) => Some(replica),
        Handle::Domain => domain.0.state.lock().replicas.first().cloned(),
        Handle::System => None,
    };
    let Some(replica) = ours else {
        // SAFETY: the caller's promise.
        return unsafe { (functions().dlinfo)(handle, request, place) };
    };
    match request {
        libc::RTLD_DI_LINKMAP => {
            // SAFETY: the caller's promise: a pointer is wanted here.
            unsafe { *place.cast::<usize>() = replica.range().link_map };
            0
        }
        ORIGIN => {
            // SAFETY: the caller's promise: room for the path is given (dlinfo(3) warns of it).
            unsafe { copy_origin(&replica, place.cast()) };
            0
        }
        _ => {
            set_error(format!(
                "dlinfo: request {request} is not answered for {}",
                replica.image.path.display()
            ));
            -1
        }
    }
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

/// A NUL-terminated copy of `bytes` that lives as long as the process; one per distinct text.
fn kept(bytes: &[u8]) -> *const c_char {
    static KEPT: Lazy<Mutex<std::collections::HashSet<CString>>> = Lazy::new(Mutex::default);
    let text = CString::new(bytes).unwrap_or_default();
    let mut kept = KEPT.lock();
    if let Some(known) = kept.get(&text) {
        return known.as_ptr();
    }
    // The heap block of a CString does not move with the set.
    let pointer = text.as_ptr();
    kept.insert(text);
    pointer
}

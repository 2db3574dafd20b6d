//! `dladdr` and `dladdr1`: the object and symbol of an address.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use crate::sys::functions::functions;
use crate::sys::lock::{Mutex, Rank};
use crate::visible::publish;

/// RTLD_DL_SYMENT and RTLD_DL_LINKMAP of `dladdr1(3)`.
const SYMBOL_ENTRY: c_int = 1;
const LINK_MAP: c_int = 2;

/// `dladdr(address, info)`: returns non-zero if an object holds the address.
///
/// # Safety
/// `info` points to a `Dl_info`.
pub(crate) unsafe extern "C" fn dladdr(address: *const c_void, info: *mut libc::Dl_info) -> c_int {
    let Some(replica) = publish::find(address as usize) else {
        // SAFETY: the caller's promise.
        return unsafe { (functions().dladdr)(address, info) };
    };
    let symbols = &replica.image.symbols;
    let symbol = symbols.nearest((address as usize).wrapping_sub(replica.bias) as u64);
    let named = symbol.and_then(|(_, symbol)| Some((kept(symbols.name(&symbol)?), symbol)));
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
pub(crate) unsafe extern "C" fn dladdr1(
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
            SYMBOL_ENTRY => *extra = symbol_entry(address as usize).cast_mut().cast(),
            _ => {}
        }
        dladdr(address, info)
    }
}

/// The symbol that `dladdr` names for `address`, or null. It lies in its image's file, which is mapped as
/// long as a replica is.
fn symbol_entry(address: usize) -> *const u8 {
    let entry = || {
        let replica = publish::find(address)?;
        let symbols = &replica.image.symbols;
        let (index, _) = symbols.nearest(address.wrapping_sub(replica.bias) as u64)?;
        symbols.entry(index).map(<[u8]>::as_ptr)
    };
    entry().unwrap_or(ptr::null())
}

static KEPT: Mutex<BTreeSet<CString>> = Mutex::new(Rank::Names, BTreeSet::new());

/// A NUL-terminated copy of `bytes` that lives as long as the process; one per distinct text.
fn kept(bytes: &[u8]) -> *const c_char {
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

//! glibc's own `dl*` functions, for the rest of this crate.
//!
//! They are the functions to which the names bind. If the process itself answers the names by this crate
//! (a preloaded library that exports `dlopen`), they are the functions that [`replace`] found.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use goblin::elf::dynamic::{DT_DEBUG, DT_NULL};

use super::lock::Once;

/// The callback of `dl_iterate_phdr(3)`.
pub(crate) type Visit =
    unsafe extern "C-unwind" fn(*mut libc::dl_phdr_info, libc::size_t, *mut c_void) -> c_int;

pub(crate) type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
pub(crate) type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(crate) type Symbol = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
pub(crate) type VersionedSymbol =
    unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
pub(crate) type LastError = unsafe extern "C" fn() -> *mut c_char;
pub(crate) type Address = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;
pub(crate) type AddressAndMore =
    unsafe extern "C" fn(*const c_void, *mut libc::Dl_info, *mut *mut c_void, c_int) -> c_int;
pub(crate) type Information = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;
/// The callback's exceptions pass through it.
pub(crate) type Iterate = unsafe extern "C-unwind" fn(Option<Visit>, *mut c_void) -> c_int;

/// Pointers to the functions; their contracts are those of the manual pages.
pub(crate) struct Functions {
    pub dlopen: Open,
    pub dlclose: Close,
    pub dlsym: Symbol,
    pub dlvsym: VersionedSymbol,
    pub dlerror: LastError,
    pub dladdr: Address,
    pub dladdr1: AddressAndMore,
    pub dlinfo: Information,
    pub dl_iterate_phdr: Iterate,
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}

unsafe extern "C-unwind" {
    fn dl_iterate_phdr(callback: Option<Visit>, data: *mut c_void) -> c_int;
}

static LINKED: Functions = Functions {
    dlopen: libc::dlopen,
    dlclose: libc::dlclose,
    dlsym: libc::dlsym,
    dlvsym,
    dlerror: libc::dlerror,
    dladdr: libc::dladdr,
    dladdr1,
    dlinfo: libc::dlinfo,
    dl_iterate_phdr,
};

static FOUND: Once<Functions> = Once::new();

/// The functions in force.
pub(crate) fn functions() -> &'static Functions {
    FOUND.get().unwrap_or(&LINKED)
}

/// Makes calls go to the functions that `find` finds, whatever the names bind to. `None` if it finds nothing.
pub(crate) fn replace(find: impl FnOnce() -> Option<Functions>) -> Option<()> {
    FOUND.get_or_try_init(|| find().ok_or(())).ok().map(|_| ())
}

/// The public head of `struct link_map` (`<link.h>`).
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: *const LinkMap,
}

/// The load bias of libc, from the list that ld.so keeps for debuggers: no function of glibc's
/// loader is called for it, which might allocate by the program's own `malloc`.
pub(crate) fn bias_of_libc() -> Option<usize> {
    // SAFETY: getauxval reads a table of the process.
    let (table, count) =
        unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    if table == 0 {
        return None;
    }
    // SAFETY: the kernel gives the address and number of the program headers of the executable,
    // which is never unmapped.
    let headers = unsafe {
        std::slice::from_raw_parts(
            ptr::with_exposed_provenance::<libc::Elf64_Phdr>(table as usize),
            count as usize,
        )
    };
    let find = |kind| headers.iter().find(|header| header.p_type == kind);
    let bias = table.wrapping_sub(find(libc::PT_PHDR)?.p_vaddr);
    let dynamic = bias.wrapping_add(find(libc::PT_DYNAMIC)?.p_vaddr) as usize;
    let mut entry = ptr::with_exposed_provenance::<[u64; 2]>(dynamic);
    // SAFETY: the dynamic section of the executable ends with DT_NULL; ld.so has put the address
    // of its `struct r_debug` into DT_DEBUG, whose second field heads the list; names end with NUL.
    unsafe {
        while (*entry)[0] != DT_DEBUG {
            if (*entry)[0] == DT_NULL {
                return None;
            }
            entry = entry.add(1);
        }
        let rendezvous = ptr::with_exposed_provenance::<[usize; 2]>((*entry)[1] as usize);
        let mut map = ptr::with_exposed_provenance::<LinkMap>((*rendezvous)[1]);
        while let Some(object) = map.as_ref() {
            if CStr::from_ptr(object.name).to_bytes().ends_with(b"/libc.so.6") {
                return Some(object.bias);
            }
            map = object.next;
        }
    }
    None
}

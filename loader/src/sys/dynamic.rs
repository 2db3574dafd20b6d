//! The system's own dynamic loader (glibc): the objects it holds, and its `dl*` functions.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use crate::sys::functions::functions;
use crate::sys::guard;

/// An object that the system loader has opened. Dropping it closes the reference, unless it is kept.
#[derive(Debug)]
pub(crate) struct SystemHandle(*mut c_void);

// SAFETY: dl handles may be used from any thread (POSIX dlopen is MT-Safe).
unsafe impl Send for SystemHandle {}
// SAFETY: as above; a handle is only an opaque pointer to glibc.
unsafe impl Sync for SystemHandle {}

impl SystemHandle {
    /// `dlopen(name, flags)`; the error is the text of `dlerror`.
    pub(crate) fn open(name: &CStr, flags: c_int) -> Result<SystemHandle, String> {
        let what = format!("{}: a constructor", name.to_string_lossy());
        let arguments = [name.as_ptr().expose_provenance(), flags as usize, 0];
        // An exception would leave glibc's lock and its record of the load as they are in the middle of it.
        // SAFETY: `name` is NUL-terminated. Constructors of the library run, as the caller intends.
        let handle = unsafe { guard::call_or_end(&what, functions().dlopen as usize, arguments) };
        let handle = ptr::with_exposed_provenance_mut::<c_void>(handle);
        if handle.is_null() { Err(last_error()) } else { Ok(SystemHandle(handle)) }
    }

    /// Base address of the object (`l_addr` of its link map).
    pub(crate) fn base(&self) -> Option<usize> {
        let mut map: *const LinkMap = ptr::null();
        // SAFETY: RTLD_DI_LINKMAP (2) writes one pointer to the place that is passed.
        let status =
            unsafe { (functions().dlinfo)(self.0, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
        // SAFETY: on success the link map lives as long as the object is open, which we hold.
        (status == 0 && !map.is_null()).then(|| unsafe { (*map).address })
    }

    /// `dlsym(handle, name)`.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the handle is open, the name NUL-terminated.
        let address = unsafe { (functions().dlsym)(self.0, name.as_ptr()) };
        if address.is_null() {
            // Clears the thread's error, as in `global_symbol`.
            // SAFETY: no arguments.
            unsafe { (functions().dlerror)() };
        }
        (!address.is_null()).then_some(address as usize)
    }

    /// Gives up the reference without closing the object: it stays loaded for good.
    pub(crate) fn keep(self) -> *mut c_void {
        let handle = self.0;
        std::mem::forget(self);
        handle
    }
}

impl Drop for SystemHandle {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and its reference is ours to give back.
        unsafe { (functions().dlclose)(self.0) };
    }
}

/// The public head of glibc's `struct link_map` (`<link.h>`).
#[repr(C)]
pub(crate) struct LinkMap {
    pub address: usize,
    name: *const c_char,
    pub dynamic: *const c_void,
    pub next: *const LinkMap,
    previous: *const LinkMap,
}

/// The executable's link map, which glibc gives as the handle of `dlopen(NULL)`.
pub(crate) fn program_link_map() -> Option<&'static LinkMap> {
    // SAFETY: no name and a valid mode. The executable is never unloaded.
    unsafe { (functions().dlopen)(ptr::null(), libc::RTLD_LAZY).cast::<LinkMap>().as_ref() }
}

/// The text of the calling thread's last dl* error.
pub(crate) fn last_error() -> String {
    // SAFETY: dlerror returns NULL or a string valid until the thread's next dl* call.
    let text = unsafe { (functions().dlerror)() };
    if text.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: checked above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// `dlsym(RTLD_DEFAULT, name)`, or `dlvsym` where a version is wanted.
pub(crate) fn global_symbol(name: &CStr, version: Option<&CStr>) -> Option<usize> {
    let address = match version {
        // SAFETY: the strings are NUL-terminated.
        Some(version) => unsafe {
            (functions().dlvsym)(libc::RTLD_DEFAULT, name.as_ptr(), version.as_ptr())
        },
        // SAFETY: as above.
        None => unsafe { (functions().dlsym)(libc::RTLD_DEFAULT, name.as_ptr()) },
    };
    // Clears the thread's error, so that a replica that asks for it sees only its own.
    if address.is_null() {
        // SAFETY: no arguments.
        unsafe { (functions().dlerror)() };
    }
    (!address.is_null()).then_some(address as usize)
}

/// `dlvsym(handle, name, version)`.
///
/// # Safety
/// As dlvsym(3).
pub(crate) unsafe fn versioned_symbol(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { (functions().dlvsym)(handle, name, version) }
}

/// The record of `dl_iterate_phdr` for one object of the system loader.
#[derive(Clone, Debug)]
pub(crate) struct LoadedObject {
    pub base: usize,
    pub name: CString,
    pub headers: usize,
    pub header_count: usize,
    /// TLS module id, 0 if the object has no TLS.
    pub tls_module: usize,
}

impl LoadedObject {
    /// Its program headers.
    pub(crate) fn program_headers(&self) -> &[libc::Elf64_Phdr] {
        if self.header_count == 0 {
            return &[];
        }
        // SAFETY: dl_iterate_phdr reported the address and number of the headers of an object
        // that is mapped; the caller keeps it so.
        unsafe {
            std::slice::from_raw_parts(self.headers as *const libc::Elf64_Phdr, self.header_count)
        }
    }

    /// Whether one of its segments holds `address`.
    pub(crate) fn holds(&self, address: usize) -> bool {
        self.program_headers().iter().any(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD
                && (start..start + header.p_memsz as usize).contains(&address)
        })
    }
}

/// Every object of the system loader, in its order.
pub(crate) fn objects() -> Vec<LoadedObject> {
    let mut list = Vec::new();
    for_each_object(|object| list.push(object));
    list
}

/// Calls `visit` for every object of the system loader, in its order. None of them is unloaded meanwhile.
pub(crate) fn for_each_object<F: FnMut(LoadedObject)>(mut visit: F) {
    unsafe extern "C-unwind" fn call<F: FnMut(LoadedObject)>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: glibc passes a valid record, and `visit` is the closure of the caller below.
        let (info, visit) = unsafe { (&*info, &mut *visit.cast::<F>()) };
        let name = if info.dlpi_name.is_null() {
            CString::default()
        } else {
            // SAFETY: a non-null name is NUL-terminated.
            unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned()
        };
        visit(LoadedObject {
            base: info.dlpi_addr as usize,
            name,
            headers: info.dlpi_phdr as usize,
            header_count: info.dlpi_phnum as usize,
            tls_module: info.dlpi_tls_modid,
        });
        0
    }
    // SAFETY: the callback matches the signature and gets the closure that it expects.
    unsafe { (functions().dl_iterate_phdr)(Some(call::<F>), (&raw mut visit).cast()) };
}

/// The counters of `dl_iterate_phdr`: objects ever added, objects ever removed.
pub(crate) fn generation() -> (u64, u64) {
    unsafe extern "C-unwind" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        place: *mut c_void,
    ) -> c_int {
        // SAFETY: glibc passes a valid record, and `place` is the pair of the caller below.
        unsafe { *place.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut counters = (0u64, 0u64);
    // SAFETY: the callback matches the signature and does not unwind.
    unsafe { (functions().dl_iterate_phdr)(Some(visit), (&raw mut counters).cast()) };
    counters
}

/// Program arguments and environment as constructors of shared objects receive them from glibc.
#[derive(Debug)]
pub(crate) struct ProgramArguments {
    pub count: c_int,
    pub values: *const *const c_char,
}

// SAFETY: the vector behind `values` is leaked and never written again.
unsafe impl Send for ProgramArguments {}
// SAFETY: as above.
unsafe impl Sync for ProgramArguments {}

impl ProgramArguments {
    /// The arguments, and behind them an environment with these entries and the auxiliary vector, as the kernel lays them out (psABI,
    /// "Initial Stack and Register State"). glibc passes its constructors that very block, and the runtime of Go
    /// reads on behind the arguments (runtime/os_linux.go, `sysargs`).
    pub(crate) fn with<'a>(variables: impl Iterator<Item = &'a CStr>) -> ProgramArguments {
        use std::os::unix::ffi::OsStringExt;
        let leak = |text: CString| text.into_raw().expose_provenance();
        let arguments = std::env::args_os().filter_map(|text| CString::new(text.into_vec()).ok());
        let arguments: Vec<usize> = arguments.map(leak).collect();
        let count = arguments.len() as c_int;
        let variables = variables.map(|entry| leak(entry.to_owned()));
        // Without /proc, or if the process may not read it, the vector is empty, which is allowed.
        let auxiliary = super::file::read(Path::new("/proc/self/auxv")).unwrap_or_default();
        let (words, _) = auxiliary.as_chunks::<{ size_of::<usize>() }>();
        let block: Vec<usize> = arguments
            .into_iter()
            .chain([0])
            .chain(variables)
            .chain([0])
            .chain(words.iter().map(|word| usize::from_ne_bytes(*word)))
            .chain([libc::AT_NULL as usize, 0])
            .collect();
        ProgramArguments { count, values: Box::leak(block.into_boxed_slice()).as_ptr().cast() }
    }
}

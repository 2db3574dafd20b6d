//! A replica's link map, which debuggers and programs read as glibc's, and its range of addresses, which
//! unwinders search.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::id::DomainId;
use crate::sys::dynamic;

/// The public head of `struct link_map` (`<link.h>`): all that debuggers read. It owns its name.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LinkMap {
    load_bias: usize,
    name: *const c_char,
    dynamic: usize,
    pub next: AtomicPtr<LinkMap>,
    pub previous: AtomicPtr<LinkMap>,
}

// SAFETY: the name is this value's own and never changes; the links are atomics that only the holder of the
// directory's lock writes.
unsafe impl Send for LinkMap {}
// SAFETY: as above.
unsafe impl Sync for LinkMap {}

impl LinkMap {
    pub(crate) fn new(path: &Path, load_bias: usize, dynamic: usize) -> Box<LinkMap> {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        Box::new(LinkMap {
            load_bias,
            name: name.into_raw(),
            dynamic,
            next: AtomicPtr::new(ptr::null_mut()),
            previous: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// A record that begins as the executable's own. The list behind it is that of the system's objects.
    pub(crate) fn like_the_program() -> Box<LinkMap> {
        let Some(program) = dynamic::program_link_map() else {
            return LinkMap::new(Path::new(""), 0, 0);
        };
        let map = LinkMap::new(Path::new(""), program.address, program.dynamic.addr());
        map.next.store(program.next.cast_mut().cast(), Ordering::Relaxed);
        map
    }
}

impl Drop for LinkMap {
    fn drop(&mut self) {
        // SAFETY: made by `into_raw` in `new`. Nobody finds it here any more: a published one is taken
        // off the list before.
        drop(unsafe { CString::from_raw(self.name.cast_mut()) });
    }
}

/// The data that an unwinder needs of a replica, without locks and without following pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: usize,
    pub end: usize,
    /// Address of `.eh_frame_hdr`, or 0.
    pub unwind_header: usize,
    /// Address of its `link_map`.
    pub link_map: usize,
    /// The domain that it belongs to.
    pub domain: DomainId,
}

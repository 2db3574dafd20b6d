//! Address space: reservations, file mappings in them, and protection.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::lock::{Mutex, Rank};
use super::{page_down, page_size, page_up};

/// A range of address space with one owner. It is unmapped when the owner is dropped.
///
/// ```text
///  base                                            base + length
///  |  R file  |  RX file  |  R file  |  RW file  | anonymous | PROT_NONE gap |
/// ```
#[derive(Debug)]
pub(crate) struct Reservation {
    base: usize,
    length: usize,
}

impl Reservation {
    /// Reserves `length` bytes (rounded up to pages) at an address that is a multiple of
    /// `alignment`, with no access rights and no memory behind them.
    pub(crate) fn new(length: usize, alignment: usize) -> io::Result<Reservation> {
        unmap_owed();
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let length = page_up(length).filter(|&length| length > 0).ok_or_else(invalid)?;
        let alignment = alignment.max(page_size());
        if !alignment.is_power_of_two() {
            return Err(invalid());
        }
        let slack = alignment - page_size();
        let total = length.checked_add(slack).ok_or_else(invalid)?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                total,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = address as usize;
        let base = (start + slack) & !(alignment - 1);
        for (from, to) in [(start, base), (base + length, start + total)] {
            if to > from {
                // SAFETY: the range lies inside the mapping made above and outside the part kept.
                unsafe { unmap(from, to - from) };
            }
        }
        Ok(Reservation { base, length })
    }

    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Maps `length` bytes of `file` from the page-aligned `offset` at `at` bytes into the range.
    pub(crate) fn map_file(
        &self,
        at: usize,
        length: usize,
        file: &File,
        offset: u64,
        protection: Protection,
    ) -> io::Result<()> {
        self.map(at, length, file.as_raw_fd(), offset, protection, 0)
    }

    /// Maps zeroed memory at `at` bytes into the range.
    pub(crate) fn map_zeroes(
        &self,
        at: usize,
        length: usize,
        protection: Protection,
    ) -> io::Result<()> {
        self.map(at, length, -1, 0, protection, libc::MAP_ANONYMOUS)
    }

    fn map(
        &self,
        at: usize,
        length: usize,
        descriptor: i32,
        offset: u64,
        protection: Protection,
        flags: i32,
    ) -> io::Result<()> {
        if !self.holds(at, length)
            || !at.is_multiple_of(page_size())
            || !offset.is_multiple_of(page_size() as u64)
        {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: MAP_FIXED replaces only pages of this reservation, checked above, which nobody
        // else refers to before the owner hands out addresses.
        let address = unsafe {
            libc::mmap(
                (self.base + at) as *mut libc::c_void,
                length,
                protection.bits(),
                libc::MAP_PRIVATE | libc::MAP_FIXED | flags,
                descriptor,
                offset as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Changes the protection of the pages that `at..at + length` lies in.
    pub(crate) fn protect(
        &self,
        at: usize,
        length: usize,
        protection: Protection,
    ) -> io::Result<()> {
        if !self.holds(at, length) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        if length == 0 {
            return Ok(());
        }
        protect(self.base + at, length, protection)
    }

    fn holds(&self, at: usize, length: usize) -> bool {
        at.checked_add(length).is_some_and(|end| end <= self.length)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by `new` and belongs to this value alone; whoever keeps
        // addresses into it keeps the value too.
        unsafe { unmap(self.base, self.length) };
    }
}

/// `mmap`, for code of a domain.
///
/// # Safety
/// As mmap(2).
pub(crate) unsafe fn map(
    address: usize,
    length: usize,
    protection: i32,
    flags: i32,
    descriptor: i32,
    offset: i64,
) -> *mut libc::c_void {
    let address = ptr::with_exposed_provenance_mut(address);
    // SAFETY: passed on.
    unsafe { libc::mmap(address, length, protection, flags, descriptor, offset) }
}

/// `munmap`, for code of a domain.
///
/// # Safety
/// As munmap(2).
pub(crate) unsafe fn unmap_for(address: usize, length: usize) -> i32 {
    // SAFETY: passed on.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(address), length) }
}

/// `mremap`, for code of a domain. The kernel reads the last argument only if the flags say so.
///
/// # Safety
/// As mremap(2).
pub(crate) unsafe fn remap(
    address: usize,
    old_length: usize,
    length: usize,
    flags: i32,
    new_address: usize,
) -> *mut libc::c_void {
    let address = ptr::with_exposed_provenance_mut(address);
    let new_address: *mut libc::c_void = ptr::with_exposed_provenance_mut(new_address);
    // SAFETY: passed on.
    unsafe { libc::mremap(address, old_length, length, flags, new_address) }
}

/// Ranges that the kernel did not unmap. It keeps neighbours of one kind as one mapping. Unmapping a range
/// in the middle splits the mapping in two, which fails at the limit on mappings.
static OWED: Mutex<Vec<(usize, usize)>> = Mutex::new(Rank::Owed, Vec::new());

/// Unmaps a range, or remembers it for [`unmap_owed`].
///
/// # Safety
/// It is mapped, and nobody refers to it.
pub(crate) unsafe fn unmap(start: usize, length: usize) {
    // SAFETY: the caller's promise.
    if unsafe { libc::munmap(start as *mut libc::c_void, length) } != 0 {
        OWED.lock().push((start, length));
    }
}

/// Tries again to unmap the ranges that could not be unmapped.
fn unmap_owed() {
    let owed = std::mem::take(&mut *OWED.lock());
    for (start, length) in owed {
        // SAFETY: `unmap` was called with them, and did nothing.
        unsafe { unmap(start, length) };
    }
}

/// Changes the protection of the pages that `address..address + length` lies in.
pub(crate) fn protect(address: usize, length: usize, protection: Protection) -> io::Result<()> {
    let start = page_down(address);
    let end =
        page_up(address + length).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let region = match protection {
        Protection::Read => region::Protection::READ,
        Protection::ReadWrite => region::Protection::READ_WRITE,
        Protection::ReadExecute => region::Protection::READ_EXECUTE,
    };
    // SAFETY: callers name ranges of mappings that they own, or one pointer slot of a system
    // object whose protection they widen and restore; code and data in them stay as they are.
    unsafe { region::protect(start as *const u8, end - start, region) }.map_err(system_error)
}

fn system_error(error: region::Error) -> io::Error {
    match error {
        region::Error::SystemCall(error) => error,
        other => io::Error::other(other),
    }
}

/// Returns the pages of a private range to the system. They show the file again, or zeroes.
///
/// # Safety
/// Nobody needs their contents.
pub(crate) unsafe fn forget(address: usize, length: usize) {
    // SAFETY: the caller's promise. If the kernel refuses, the pages stay as they are.
    unsafe { libc::madvise(address as *mut libc::c_void, length, libc::MADV_DONTNEED) };
}

/// Makes the pages of a writable private range the process's own, in one request instead of one
/// page fault each. An older kernel (before 5.14) refuses, and the faults do it.
pub(crate) fn populate(address: usize, length: usize) {
    // SAFETY: the advice changes no content: it does what writes to the pages would do.
    unsafe { libc::madvise(address as *mut libc::c_void, length, libc::MADV_POPULATE_WRITE) };
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(Rank::Writable, ());

/// Calls `write` when the pages that `address..address + length` lies in can be written, also where they
/// are read-only, as RELRO parts are; their rights are restored.
pub(crate) fn while_writable(
    address: usize,
    length: usize,
    write: impl FnOnce(),
) -> io::Result<()> {
    // Another thread must not restore the rights of a page between our look and our write.
    let _guard = ONE_AT_A_TIME.lock();
    let region = region::query(address as *const u8).map_err(system_error)?;
    let read_only = !region.is_writable();
    if read_only {
        protect(address, length, Protection::ReadWrite)?;
    }
    write();
    if read_only && let Err(error) = protect(address, length, Protection::Read) {
        // The write has succeeded, and nothing relies on the page being read-only.
        tracing::warn!(%error, "the page at {address:#x} stays writable");
    }
    Ok(())
}

/// Access rights of a mapping. On purpose no value allows writing and executing at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    Read,
    ReadWrite,
    ReadExecute,
}

impl Protection {
    fn bits(self) -> i32 {
        match self {
            Protection::Read => libc::PROT_READ,
            Protection::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
            Protection::ReadExecute => libc::PROT_READ | libc::PROT_EXEC,
        }
    }
}

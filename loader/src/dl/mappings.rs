//! `mmap` and its relatives: which addresses a domain's code has mapped.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use crate::arch::gathering;
use crate::dl::Interposed;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::sys::{memory, page_size, page_up};

/// The functions that map and unmap memory.
pub(super) fn uses(domain: DomainId) -> Vec<Interposed> {
    let context = domain.0 as usize;
    // SAFETY: the function has the signature of <sys/mman.h>, and then the context.
    let unmap = unsafe { Interposition::with_context(munmap as *const c_void, 2, context) };
    // SAFETY: `gathering` has defined the functions.
    let gathered =
        |target| unsafe { Interposition::with_hidden_context(target, domain.0 as usize) };
    vec![
        ("munmap", unmap),
        ("mmap", gathered(mmap as *const c_void)),
        // The same on 64-bit machines.
        ("mmap64", gathered(mmap as *const c_void)),
        ("mremap", gathered(mremap as *const c_void)),
    ]
}

fn of(context: usize) -> Option<Domain> {
    domain::by_id(DomainId(context as u32))
}

/// The pages from `address` on. None if it is not the address of a page: the kernel refuses it.
fn range(address: usize, length: usize) -> Range<usize> {
    let length = if address.is_multiple_of(page_size()) { page_up(length).unwrap_or(0) } else { 0 };
    address..address.saturating_add(length)
}

gathering!(mmap => map_gathered);
gathering!(mremap => remap_gathered);

/// `mmap(address, length, protection, flags, descriptor, offset)`.
///
/// # Safety
/// As mmap(2), of the six words at `arguments`.
unsafe extern "C" fn map_gathered(arguments: *const usize, context: usize) -> *mut c_void {
    // SAFETY: the words are the arguments' registers, as the machine passes integers.
    let [address, length, protection, flags, descriptor, offset] =
        unsafe { arguments.cast::<[usize; 6]>().read() };
    let [protection, flags, descriptor] = [protection, flags, descriptor].map(|word| word as c_int);
    // SAFETY: passed on.
    let mapped =
        unsafe { memory::map(address, length, protection, flags, descriptor, offset as i64) };
    if mapped != libc::MAP_FAILED
        && let Some(domain) = of(context)
    {
        domain.0.belongings.note_mapping(range(mapped as usize, length));
    }
    mapped
}

/// `munmap(address, length)`.
///
/// # Safety
/// As munmap(2).
unsafe extern "C" fn munmap(address: *mut c_void, length: usize, context: usize) -> c_int {
    let domain = of(context);
    // Before it is unmapped: another domain may get the addresses right after.
    let noted =
        |domain: &Domain| domain.0.belongings.forget_mapping(range(address as usize, length));
    let noted = domain.as_ref().map(noted);
    // SAFETY: passed on.
    let status = unsafe { memory::unmap_for(address as usize, length) };
    if status != 0
        && let (Some(domain), Some(noted)) = (domain, noted)
    {
        noted.into_iter().for_each(|range| domain.0.belongings.note_mapping(range));
    }
    status
}

/// `mremap(address, old length, length, flags, new address)`.
///
/// # Safety
/// As mremap(2), of the five words at `arguments`.
unsafe extern "C" fn remap_gathered(arguments: *const usize, context: usize) -> *mut c_void {
    // SAFETY: the words are the arguments' registers, as the machine passes integers.
    let [address, old_length, length, flags, new_address] =
        unsafe { arguments.cast::<[usize; 5]>().read() };
    let domain = of(context);
    let noted = |domain: &Domain| domain.0.belongings.forget_mapping(range(address, old_length));
    let noted = domain.as_ref().map(noted);
    let flags = flags as c_int;
    // SAFETY: passed on.
    let mapped = unsafe { memory::remap(address, old_length, length, flags, new_address) };
    if let (Some(domain), Some(noted)) = (domain, noted) {
        let was_kept = mapped == libc::MAP_FAILED || flags & libc::MREMAP_DONTUNMAP != 0;
        if was_kept {
            noted.iter().cloned().for_each(|range| domain.0.belongings.note_mapping(range));
        }
        if mapped != libc::MAP_FAILED && (!noted.is_empty() || old_length == 0) {
            domain.0.belongings.note_mapping(range(mapped as usize, length));
        }
    }
    mapped
}

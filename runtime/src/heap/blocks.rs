//! Blocks of dlmalloc as their memory has them (dlmalloc, "Overlaid data structures").
//!
//! Before a block lies a word with its length, its head included, and three flags. The word before that is the length of the
//! block before, if that one is free. Blocks lie side by side from the start of a slice to a last free one, the top.

use hydrozoa_payload::pages::page_size;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORD: usize = size_of::<usize>();

/// The block before is in use, the block is in use, and a flag without a meaning here.
const BEFORE: usize = 1;
const IN_USE: usize = 2;
const FLAGS: usize = 7;

/// A block has four words at least, of which its user has three.
pub(super) const SHORTEST: usize = 3 * WORD;

/// A free block that a list has.
pub(super) struct Left {
    pub(super) next: *mut Left,
    /// Whose list it is: the thread's cache has a mark of its own there.
    pub(super) mark: usize,
}

/// The word at an address.
///
/// # Safety
/// It lies in a used part of a slice.
unsafe fn word(address: usize) -> usize {
    // SAFETY: by contract. Others change flags only while they free the block before.
    unsafe { &*ptr::with_exposed_provenance::<AtomicUsize>(address) }.load(Ordering::Relaxed)
}

/// The number of bytes of a block that its user has.
///
/// # Safety
/// It is one, and in use.
#[inline]
pub(super) unsafe fn length_of(block: *mut c_void) -> usize {
    // SAFETY: by contract.
    let head = unsafe { &*block.cast::<AtomicUsize>().sub(1) }.load(Ordering::Relaxed);
    (head & !FLAGS) - WORD
}

/// As [`length_of`], and `None` if the block is free: it is freed a second time.
///
/// # Safety
/// It is a block, in use or free.
#[inline]
pub(super) unsafe fn length_in_use(block: *mut c_void) -> Option<usize> {
    // SAFETY: by contract.
    let head = unsafe { &*block.cast::<AtomicUsize>().sub(1) }.load(Ordering::Relaxed);
    (head & IN_USE != 0).then(|| (head & !FLAGS).wrapping_sub(WORD))
}

/// Whether there may be a block in use, by its own head.
///
/// # Safety
/// The part is the used one of a slice.
pub(super) unsafe fn is_whole(block: *mut c_void, used: Range<usize>) -> bool {
    let start = block.addr();
    if !start.is_multiple_of(2 * WORD) || start < used.start + 2 * WORD || start >= used.end {
        return false;
    }
    // SAFETY: the word lies there.
    let head = unsafe { word(start - WORD) };
    let length = head & !FLAGS;
    head & IN_USE != 0 && length > SHORTEST && length < used.end - (start - 2 * WORD)
}

/// Whether there is a block in use whose head agrees with the heads of its neighbours. An overflow of a block writes over the
/// next one's head, and a second free finds a block that is free.
///
/// # Safety
/// The part is the used one of a slice, and the calling thread has its arena.
pub(super) unsafe fn is_sound(block: *mut c_void, used: Range<usize>) -> bool {
    // SAFETY: by contract; the words that are read lie in the part.
    unsafe {
        if !is_whole(block, used.clone()) {
            return false;
        }
        let start = block.addr() - 2 * WORD;
        let head = word(start + WORD);
        let next = start + (head & !FLAGS);
        let next_head = word(next + WORD);
        let is_next_sound = next_head & BEFORE != 0 && (next_head & !FLAGS) <= used.end - next;
        if !is_next_sound || head & BEFORE != 0 {
            return is_next_sound;
        }
        let length = word(start);
        length.is_multiple_of(2 * WORD)
            && length > SHORTEST
            && length <= start - used.start
            && word(start - length + WORD) & !FLAGS == length
    }
}

/// The bytes that are free at the end of the used part once a block is freed; 0 if another one in use lies behind it.
///
/// # Safety
/// It is sound, and the calling thread has its arena.
pub(super) unsafe fn free_at_end(block: *mut c_void, used: Range<usize>) -> usize {
    /// The words behind the top are fewer (`top_foot_size`).
    const FOOT: usize = 32 * WORD;
    // SAFETY: by contract; the words that are read lie in the part.
    unsafe {
        let start = block.addr() - 2 * WORD;
        let head = word(start + WORD);
        let before = if head & BEFORE == 0 { word(start) } else { 0 };
        let next = start + (head & !FLAGS);
        let next_head = word(next + WORD);
        let end = next + (next_head & !FLAGS);
        let is_top = next_head & IN_USE == 0 && end + FOOT >= used.end;
        if is_top { before + (end - start) } else { 0 }
    }
}

/// The free pages in the used part of a slice, without those with words of free blocks, and without the top.
///
/// # Safety
/// The part is the used one of a slice, and the calling thread has its arena.
pub(super) unsafe fn free_ranges(used: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    /// The words of a free block: its head, and links of a list and of a tree.
    const LINKS: usize = 8 * WORD;
    let mut start = used.start;
    std::iter::from_fn(move || {
        while start + 2 * WORD < used.end {
            // SAFETY: a head lies there.
            let head = unsafe { word(start + WORD) };
            let (block, length) = (start, head & !FLAGS);
            // The words behind the top, or damage.
            if length <= SHORTEST || length > used.end - block {
                return None;
            }
            start += length;
            if head & IN_USE == 0 {
                let first = (block + LINKS).next_multiple_of(page_size());
                return Some(first..(start & !(page_size() - 1)).max(first));
            }
        }
        None
    })
}

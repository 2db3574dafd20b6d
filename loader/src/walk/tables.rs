//! The unwind table of a function: its entry in `.eh_frame`, found by `.eh_frame_hdr`.
//!
//! The formats are those of the Linux Standard Base (Core, "Exception Frames").

use crate::sys::own_memory::{read, word};
use crate::visible::unwind;

/// DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4, DW_EH_PE_datarel | DW_EH_PE_sdata4: how all linkers encode the address
/// of `.eh_frame`, the number of entries, and the entries. Version 1.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// The most bytes that a function's two records may have together. Those of large functions have some hundred.
const MOST: usize = 16 << 10;

/// Whether an object with unwind tables holds the address.
pub(super) fn are_there(address: usize) -> bool {
    unwind::object_at(address).is_some_and(|object| object.unwind_header != 0)
}

/// The records of one function, in a copy: the common information entry, and the function's entry behind it.
pub(super) struct UnwindEntry {
    bytes: [u8; MOST],
    /// Where the function's entry begins, in the copy.
    pub own: usize,
    /// Where it ends.
    end: usize,
    /// The distance between the places of the entry in the copy and in memory.
    pub base: usize,
}

impl UnwindEntry {
    /// The entry of the function that holds `address`, which lies in an object with this header.
    pub(super) fn find(header: usize, address: usize) -> Option<UnwindEntry> {
        let place = search(header, address)?;
        let mut entry = UnwindEntry { bytes: [0; MOST], own: 0, end: 0, base: 0 };
        let length = length_at(place)?;
        let back = half(place + 4)?;
        // A pointer from itself back to the common entry. Zero marks a common entry.
        let common =
            (place + 4).checked_sub(usize::try_from(back).ok().filter(|back| *back > 0)?)?;
        entry.own = length_at(common)?;
        entry.end = entry.own.checked_add(length).filter(|end| *end <= MOST)?;
        entry.base = place.wrapping_sub(entry.own);
        let (first, second) = entry.bytes[..entry.end].split_at_mut(entry.own);
        if !read(common, first) || !read(place, second) {
            return None;
        }
        // In the copy the common entry lies directly before.
        let back = u32::try_from(entry.own + 4).ok()?;
        entry.bytes[entry.own + 4..entry.own + 8].copy_from_slice(&back.to_ne_bytes());
        Some(entry)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }
}

/// The place of the last entry in the table of `header` whose function begins at `address` or below.
fn search(header: usize, address: usize) -> Option<usize> {
    let mut start = [0; 12];
    if !read(header, &mut start) || start[..4] != HEADER {
        return None;
    }
    let count = u32::from_ne_bytes(start[8..].try_into().ok()?) as usize;
    let pair = |index: usize| {
        let both = word(header + 12 + 8 * index)?.to_ne_bytes();
        let of = |bytes: &[u8]| {
            let offset = i32::from_ne_bytes(bytes.try_into().ok()?);
            Some(header.wrapping_add_signed(offset as isize))
        };
        Some((of(&both[..4])?, of(&both[4..])?))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if pair(middle)?.0 <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(pair(low.checked_sub(1)?)?.1)
}

/// The bytes of the record at `place`, its length's own included. Those of the long form (64 bits) nobody makes.
fn length_at(place: usize) -> Option<usize> {
    let length = half(place).filter(|length| (4..u32::MAX - 15).contains(length))?;
    Some(length as usize + 4)
}

fn half(place: usize) -> Option<u32> {
    let mut bytes = [0; 4];
    read(place, &mut bytes).then(|| u32::from_ne_bytes(bytes))
}

//! Words that a load writes into a replica, known before it is mapped except for its address.

use std::ptr;

/// Words of a replica, in ascending order of their places, which are relative to its lowest page.
///
/// Invariant: each place was checked by [`crate::image::Targets`] and lies in one page.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Words that are the sum of the replica's bias and a constant.
    pub biased: Vec<(u32, u32)>,
    /// Words that are the same in all replicas.
    pub fixed: Vec<(u32, u64)>,
}

/// The [`Words`] that are not written yet.
pub(crate) struct Unwritten<'a> {
    bias: u64,
    biased: &'a [(u32, u32)],
    fixed: &'a [(u32, u64)],
}

impl Words {
    /// All of them, for a replica with this bias.
    pub(crate) fn unwritten(&self, bias: usize) -> Unwritten<'_> {
        Unwritten { bias: bias as u64, biased: &self.biased, fixed: &self.fixed }
    }
}

impl Unwritten<'_> {
    /// Writes those whose places lie before `end`, all relative to the page at `base`.
    ///
    /// # Safety
    /// `base` must be the address of a mapping of their image, in which their places that lie
    /// before `end` are writable and nobody else's.
    pub(crate) unsafe fn write_before(&mut self, end: usize, base: usize) {
        while let Some((&(place, constant), later)) = self.biased.split_first()
            && (place as usize) < end
        {
            let word = self.bias.wrapping_add(u64::from(constant));
            // SAFETY: the caller's promise; a place need not be aligned.
            unsafe { ptr::write_unaligned((base + place as usize) as *mut u64, word) };
            self.biased = later;
        }
        while let Some((&(place, word), later)) = self.fixed.split_first()
            && (place as usize) < end
        {
            // SAFETY: as above.
            unsafe { ptr::write_unaligned((base + place as usize) as *mut u64, word) };
            self.fixed = later;
        }
    }
}

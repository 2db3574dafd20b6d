//! The memory cost of a replica, from the image's headers and relocations.

use std::iter::Sum;
use std::ops::{Add, Range};

use crate::error::Result;
use crate::image::{Image, Segment, Targets};
use crate::sys::{page_down, page_size};

/// The memory that each replica of a file takes for itself, and the memory that all replicas share.
///
/// All figures are bytes, and all but [`Cost::thread_local`] are whole pages. They follow from the program
/// headers and the relocations alone. [`Cost::at_load`] is exact. [`Cost::at_most`] is an upper bound: a page of
/// variables becomes a replica's own with the first write to it, and many are never written. Heap that the library's
/// code allocates is not a part of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Code, and constants without addresses: never written, so in memory once for all replicas.
    pub shared: usize,
    /// Constants that hold addresses (PT_GNU_RELRO): virtual tables, tables of functions, the GOT. Relocation
    /// writes their pages, and nothing does so later.
    pub relocated_constants: usize,
    /// Variables in pages that a load writes: relocation does, or the clearing behind the file's part of a segment.
    pub relocated_data: usize,
    /// Code and constants that text relocations write (DT_TEXTREL).
    pub relocated_text: usize,
    /// Variables in other pages of the file.
    pub data: usize,
    /// Variables that begin as zeros, behind the file's part of a segment (bss).
    pub zeroed: usize,
    /// Bytes that each thread holds for the replica once it uses it (PT_TLS).
    pub thread_local: usize,
}

impl Cost {
    /// The cost of a replica of `image`.
    ///
    /// # Errors
    /// A relocation of `image` that no replica could apply.
    pub(crate) fn of(image: &Image) -> Result<Cost> {
        let targets = image.targets()?;
        let mut cost =
            Cost { thread_local: image.tls.map_or(0, |tls| tls.memory_size), ..Cost::default() };
        for segment in &image.segments {
            match segment.write {
                true => cost.add_variables(segment, image.relro, targets),
                false => {
                    let pages = pages(segment.address, segment.memory_size);
                    let written = bytes(targets.within(pages.clone()));
                    cost.relocated_text += written;
                    cost.shared += pages.len() - written;
                }
            }
        }
        Ok(cost)
    }

    /// Bytes that every loaded replica takes for itself before its code runs.
    pub fn at_load(&self) -> usize {
        self.relocated_constants + self.relocated_data + self.relocated_text
    }

    /// Bytes that a replica takes for itself once its code has written to every page of its variables, without
    /// thread-local data.
    pub fn at_most(&self) -> usize {
        self.at_load() + self.data + self.zeroed
    }

    fn add_variables(
        &mut self,
        segment: &Segment,
        relro: Option<(usize, usize)>,
        targets: &Targets,
    ) {
        let all = pages(segment.address, segment.memory_size);
        let file_end = segment.address + segment.file_size;
        // The rest of the page in which the file's part ends is cleared.
        let cleared = (segment.memory_size > segment.file_size
            && !file_end.is_multiple_of(page_size()))
        .then(|| page_down(file_end));
        let in_file = match segment.file_size {
            0 => all.start..all.start,
            size => pages(segment.address, size),
        };
        let relro = relro.map_or(0..0, |(start, end)| start..end);
        let mut written = vec![false; all.len() / page_size()];
        let runs = targets.within(all.clone());
        for page in runs.flat_map(|run| run.step_by(page_size())).chain(cleared) {
            written[(page - all.start) / page_size()] = true;
        }
        for (page, written) in all.step_by(page_size()).zip(written) {
            let kind = match (written, relro.contains(&page)) {
                (true, true) => &mut self.relocated_constants,
                (false, true) => &mut self.shared,
                (true, false) => &mut self.relocated_data,
                (false, false) if in_file.contains(&page) => &mut self.data,
                (false, false) => &mut self.zeroed,
            };
            *kind += page_size();
        }
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            shared: self.shared + other.shared,
            relocated_constants: self.relocated_constants + other.relocated_constants,
            relocated_data: self.relocated_data + other.relocated_data,
            relocated_text: self.relocated_text + other.relocated_text,
            data: self.data + other.data,
            zeroed: self.zeroed + other.zeroed,
            thread_local: self.thread_local + other.thread_local,
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Cost::add)
    }
}

/// The pages in which `length` bytes at `address` lie.
fn pages(address: usize, length: usize) -> Range<usize> {
    page_down(address)..(address + length).div_ceil(page_size()) * page_size()
}

fn bytes(runs: impl Iterator<Item = Range<usize>>) -> usize {
    runs.map(|run| run.len()).sum()
}

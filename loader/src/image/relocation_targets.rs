//! The places where an image's relocations write, checked once for all replicas.

use std::ops::Range;

use super::relocations::relr_addresses;
use super::{Image, Segment};
use crate::arch;
use crate::error::{Error, Result};
use crate::sys::{page_down, page_size};

/// The pages that relocation makes private to a replica.
///
/// Invariant: every relocation of the image applies inside these pages. Each page lies in a writable segment,
/// or in any segment if the image announces text relocations.
#[derive(Debug)]
pub(crate) struct Targets {
    pages: Vec<Range<usize>>,
}

impl Targets {
    /// Checks every relocation of `image`.
    pub(super) fn check(image: &Image) -> Result<Targets> {
        let mut touched = vec![false; image.span / page_size()];
        let mut mark = |offset: u64, size: usize| {
            let at = (offset as usize).wrapping_sub(image.first);
            let may_write = |segment: &&Segment| segment.write || image.dynamic.text_relocations;
            let mut writable = image.segments.iter().rev().filter(may_write);
            let inside = writable.any(|segment| segment.holds(at, size));
            if inside {
                touched[at / page_size()] = true;
                touched[(at + size - 1) / page_size()] = true;
            }
            inside
        };
        for address in relr_addresses(image.dynamic.relative) {
            if !mark(address, 8) {
                return Err(Error::Malformed {
                    object: image.path.clone(),
                    reason: format!("DT_RELR names {address:#x}, outside the writable segments"),
                });
            }
        }
        for (index, rela) in image.dynamic.rela().enumerate() {
            let refuse = |reason: &str| Error::relocation(&image.path, index, &rela, reason.into());
            let action = arch::action(rela.kind)
                .ok_or_else(|| refuse("no such relocation type on this machine"))?;
            let size = action.size();
            if size > 0 && !mark(rela.offset, size) {
                return Err(refuse("it applies outside the writable segments"));
            }
        }
        Ok(Targets { pages: runs(&touched) })
    }

    /// Runs of pages, as addresses relative to the image's lowest page.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.pages.iter().cloned()
    }

    /// The parts of these runs that lie within `pages`.
    pub(crate) fn within(&self, pages: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        self.pages().filter_map(move |run| {
            let run = run.start.max(pages.start)..run.end.min(pages.end);
            (run.start < run.end).then_some(run)
        })
    }
}

/// The runs of `true`, in bytes.
fn runs(touched: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (page, _) in touched.iter().enumerate().filter(|(_, touched)| **touched) {
        let start = page_down(page * page_size());
        match runs.last_mut() {
            Some(last) if last.end == start => last.end += page_size(),
            _ => runs.push(start..start + page_size()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pages_are_one_run() {
        let runs = runs(&[true, true, false, true]);
        assert_eq!(runs, [0..2 * page_size(), 3 * page_size()..4 * page_size()]);
    }
}

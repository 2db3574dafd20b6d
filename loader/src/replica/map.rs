//! Mapping: an image's segments at an address of their own.
//!
//! Pages of data that relocation will write become the replica's own here, in few requests, because a
//! page fault costs more than the relocations of a page. Where many such pages are in a row, the file's
//! bytes are copied into fresh memory, because the kernel's copy on write takes longer for each page. The
//! words that the plan knows of a page (see [`crate::replica::words`]) are written at once, while the page
//! is in the processor's first cache. A page without a relocation stays the file's until the program
//! writes it.
//!
//! Text relocations write to constants and code. Those pages become the replica's own too, all others stay
//! the file's. From mapping to [`protect_text`] they are writable and not executable.

use std::ops::Range;
use std::path::Path;
use std::ptr;

use crate::error::{Error, Result};
use crate::image::provided::Kept;
use crate::image::{Image, Segment};
use crate::replica::Replica;
use crate::replica::words::{Unwritten, Words};
use crate::sys::memory::{self, Protection, Reservation};
use crate::sys::{page_down, page_size, page_up};

/// Maps the segments of `image` from its file, privately: pages that nobody writes stay the page cache's.
/// Pages that relocation writes already hold `words`.
///
/// The place may be that of an ended replica of the image. Its pages are replaced then, except those that no replica
/// changes: code that the last one has left somewhere, and that nobody calls any more, is still code.
pub(crate) fn map(image: &Image, words: &Words, place: Option<Reservation>) -> Result<Reservation> {
    let failed = |action, length| {
        let object = image.path.clone();
        move |source| Error::Memory { object, action, length, source }
    };
    let file = image.file().map_err(|source| Error::Io {
        object: image.path.clone(),
        action: "open again",
        source,
    })?;
    let mapped_before = place.is_some();
    let memory = match place {
        Some(place) => place,
        None => {
            let new = Reservation::new(image.span, image.alignment);
            new.map_err(failed("reserve", image.span))?
        }
    };
    let mut words = words.unwritten(memory.base().wrapping_sub(image.first));
    for segments in mappings(&image.segments) {
        let first = &segments[0];
        let is_constant = !first.write && !image.dynamic.text_relocations;
        if mapped_before && is_constant {
            continue;
        }
        if segments.len() > 1 {
            map_run(&memory, &file, segments)
        } else {
            map_segment(&memory, image, &file, first, &mut words)
        }
        .map_err(failed("map a segment of", first.memory_size))?;
        if let Some(text) = written_text(image, segments) {
            let length = text.len();
            write_text(&memory, image, text, &mut words)
                .map_err(failed("make writable, for text relocations,", length))?;
        }
    }
    Ok(memory)
}

/// The segments, together as they are mapped: runs of constant ones, and all others alone.
fn mappings(segments: &[Segment]) -> impl Iterator<Item = &[Segment]> {
    let mut rest = segments;
    std::iter::from_fn(move || {
        let (mapping, later) = rest.split_at(constant_run(rest)?);
        rest = later;
        Some(mapping)
    })
}

/// The number of leading segments that make one mapping; none without segments. If more than one, they are
/// constant and lie in memory as in the file, without gaps.
///
/// Linkers lay out headers and constants, code, constants. Such a run is one mapping instead of three. A
/// process may have 65,530 mappings (vm.max_map_count), and that limits the number of replicas first. The
/// price is that the constants beside code are executable, as in every object before linkers separated
/// them (binutils 2.31, `-z separate-code`).
fn constant_run(segments: &[Segment]) -> Option<usize> {
    let constant = |segment: &Segment| !segment.write && segment.file_size == segment.memory_size;
    let follows = |before: &Segment, next: &Segment| {
        next.offset.wrapping_sub(before.offset) == (next.address - before.address) as u64
            && Some(page_down(next.address)) == page_up(before.address + before.memory_size)
    };
    let mut length = 1;
    while constant(segments.first()?)
        && length < segments.len()
        && constant(&segments[length])
        && follows(&segments[length - 1], &segments[length])
    {
        length += 1;
    }
    Some(length)
}

/// Maps a run of segments that [`constant_run`] found.
fn map_run(memory: &Reservation, file: &Kept, run: &[Segment]) -> std::io::Result<()> {
    let (first, last) = (&run[0], &run[run.len() - 1]);
    let start = page_down(first.address);
    let end = page_up(last.address + last.file_size).expect("the span was validated");
    let offset = first.offset - (first.address - start) as u64;
    memory.map_file(start, end - start, file.file(), file.start() + offset, protection(run))
}

/// The access rights of a mapping of `segments`.
fn protection(segments: &[Segment]) -> Protection {
    if segments[0].write {
        Protection::ReadWrite
    } else if segments.iter().any(|segment| segment.execute) {
        Protection::ReadExecute
    } else {
        Protection::Read
    }
}

/// The range of pages of a constant mapping that text relocations write to, from the first to the last. With its
/// rights changed as one range it stays one mapping; page by page it would become as many as there are pages.
fn written_text(image: &Image, segments: &[Segment]) -> Option<Range<usize>> {
    let (first, last) = (segments.first()?, segments.last()?);
    if first.write || !image.dynamic.text_relocations {
        return None;
    }
    let end = page_up(last.address + last.memory_size).expect("the span was validated");
    let mut runs = image.targets().ok()?.within(page_down(first.address)..end);
    let first = runs.next()?;
    Some(first.start..runs.last().map_or(first.end, |last| last.end))
}

/// Makes `text` of a mapping writable, and the pages in it that relocation writes the replica's own, with
/// their words.
fn write_text(
    memory: &Reservation,
    image: &Image,
    text: Range<usize>,
    words: &mut Unwritten<'_>,
) -> std::io::Result<()> {
    memory.protect(text.start, text.len(), Protection::ReadWrite)?;
    for run in image.targets().ok().into_iter().flat_map(|targets| targets.within(text.clone())) {
        memory::populate(memory.base() + run.start, run.len());
        // SAFETY: the pages were just mapped privately, are writable, and are referred to by nobody. All
        // words of earlier pages are written.
        unsafe { words.write_before(run.end, memory.base()) };
    }
    Ok(())
}

/// Gives the pages that text relocations have written the rights of their segments.
pub(crate) fn protect_text(image: &Image, memory: &Reservation) -> Result<()> {
    for segments in mappings(&image.segments) {
        if let Some(text) = written_text(image, segments) {
            change(image, memory, text, protection(segments))?;
        }
    }
    Ok(())
}

/// Calls `write`, which writes `length` bytes at `address` of a replica after [`protect_text`].
pub(crate) fn while_written(
    replica: &Replica,
    address: usize,
    length: usize,
    write: impl FnOnce(),
) -> Result<()> {
    let (image, memory) = (&*replica.image, &replica.memory);
    let at = address - memory.base();
    let text = mappings(&image.segments)
        .find(|segments| written_text(image, segments).is_some_and(|text| text.contains(&at)));
    let pages = page_down(at)..page_up(at + length).expect("the span was validated");
    if text.is_some() {
        change(image, memory, pages.clone(), Protection::ReadWrite)?;
    }
    write();
    text.map_or(Ok(()), |segments| change(image, memory, pages, protection(segments)))
}

fn change(
    image: &Image,
    memory: &Reservation,
    pages: Range<usize>,
    protection: Protection,
) -> Result<()> {
    memory.protect(pages.start, pages.len(), protection).map_err(|source| Error::Memory {
        object: image.path.clone(),
        action: "change the rights of text relocations' pages,",
        length: pages.len(),
        source,
    })
}

/// At least this many bytes in a row that relocation writes are copied; fewer are not worth a
/// mapping of their own.
const WORTH_COPYING: usize = 64 << 10;

/// The pages of this many bytes, a multiple of every page size, are made by one request and then filled: pages that
/// the kernel has cleared are still in a near cache, and requests are few.
const AT_ONCE: usize = 256 << 10;

/// The pages of a segment.
fn pages(segment: &Segment) -> Range<usize> {
    let end = page_up(segment.address + segment.memory_size).expect("the span was validated");
    page_down(segment.address)..end
}

/// Maps a segment.
fn map_segment(
    memory: &Reservation,
    image: &Image,
    file: &Kept,
    segment: &Segment,
    words: &mut Unwritten<'_>,
) -> std::io::Result<()> {
    let pages = pages(segment);
    if pages.is_empty() {
        return Ok(());
    }
    let protection = protection(std::slice::from_ref(segment));
    let tail = segment.address + segment.file_size;
    let file_end = if segment.file_size > 0 {
        page_up(tail).expect("the span was validated").clamp(pages.start, pages.end)
    } else {
        pages.start
    };
    let in_file = |run: &Range<usize>| run.start..run.end.min(file_end);
    let is_copied = |run: &Range<usize>| in_file(run).len() >= WORTH_COPYING;
    let copied: Vec<_> = written_runs(image, segment, pages.clone())
        .filter(is_copied)
        .map(|run| in_file(&run))
        .collect();
    let fresh = if copied.is_empty() { file_end } else { pages.start };
    if fresh < pages.end {
        memory.map_zeroes(fresh, pages.end - fresh, protection)?;
    }
    // The other pages stay the file's.
    let ends = copied.iter().map(|run| run.end);
    let starts = copied.iter().map(|run| run.start);
    for (from, to) in [pages.start].into_iter().chain(ends).zip(starts.chain([file_end])) {
        if from < to {
            let offset = file.start() + file_offset(segment, from) as u64;
            memory.map_file(from, to - from, file.file(), offset, protection)?;
        }
    }
    let has_tail = segment.write && segment.memory_size > segment.file_size;
    let has_tail = has_tail && (pages.start..file_end).contains(&tail);
    if has_tail && !copied.iter().any(|run| run.contains(&tail)) {
        // SAFETY: the bytes from the end of the file's part to the end of its last page lie in the
        // page just mapped, which is writable and private; the file holds other bytes there, the
        // gABI requires zeroes.
        unsafe { ptr::write_bytes((memory.base() + tail) as *mut u8, 0, file_end - tail) };
    }
    for run in written_runs(image, segment, pages) {
        let pages = in_file(&run);
        let copied = is_copied(&run);
        for at in pages.clone().step_by(AT_ONCE) {
            let part = at..pages.end.min(at + AT_ONCE);
            memory::populate(memory.base() + part.start, part.len());
            for page in part.step_by(page_size()).filter(|_| copied) {
                copy(memory, image, segment, page);
                // SAFETY: the page was just mapped, is writable, and is referred to by nobody; in
                // runs before it all words were written.
                unsafe { words.write_before(page + page_size(), memory.base()) };
            }
        }
        // SAFETY: as above, of all pages of the run.
        unsafe { words.write_before(run.end, memory.base()) };
    }
    Ok(())
}

/// The runs of pages within `pages` of a segment that relocation writes.
fn written_runs<'a>(
    image: &'a Image,
    segment: &Segment,
    pages: Range<usize>,
) -> impl Iterator<Item = Range<usize>> + 'a {
    // An image with invalid relocations is refused when they are to be applied.
    let targets = if segment.write { image.targets().ok() } else { None };
    targets.into_iter().flat_map(move |targets| targets.within(pages.clone()))
}

/// Copies what a mapping of the file would show in `page`, of a segment's file part, into fresh
/// memory.
fn copy(memory: &Reservation, image: &Image, segment: &Segment, page: usize) {
    let end = (segment.address + segment.file_size).min(page + page_size());
    let bytes = &image.bytes()[file_offset(segment, page)..file_offset(segment, end)];
    // SAFETY: the page was just mapped, is writable, and is referred to by nobody; the view of the
    // file is another mapping.
    unsafe {
        let target = (memory.base() + page) as *mut u8;
        ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
    }
}

/// The file offset of a segment's byte at `at`, which may lie before the segment in its first page:
/// then it lies before it in the file too.
fn file_offset(segment: &Segment, at: usize) -> usize {
    (segment.offset as usize + at) - segment.address
}

/// Returns the memory of an ended replica's data to the system. The range then shows the file's bytes, and zeroes. If
/// its pages may have been replaced, they are unmapped, and the range shows zeroes.
pub(crate) fn give_back(image: &Image, memory: &Reservation, was_replaced: bool) {
    let parts = image.segments.iter().filter(|segment| segment.write).map(pages);
    for Range { start, end } in parts.filter(|part| !part.is_empty()) {
        if was_replaced {
            match memory.map_zeroes(start, end - start, Protection::ReadWrite) {
                Ok(()) => continue,
                Err(error) => {
                    tracing::warn!(object = %image.path.display(), %error, "data stays mapped")
                }
            }
        }
        // SAFETY: the pages are private ones of a writable segment, and the caller says that nobody reads them.
        unsafe { memory::forget(memory.base() + start, end - start) };
    }
}

/// Makes the RELRO range read-only, after all relocation.
pub(crate) fn protect_relro(image: &Image, memory: &Reservation) -> Result<()> {
    let Some((start, end)) = image.relro else { return Ok(()) };
    memory.protect(start, end - start, Protection::Read).map_err(|source| Error::Memory {
        object: Path::new(&image.path).to_owned(),
        action: "protect the RELRO part of",
        length: end - start,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(address: usize, offset: u64, size: usize, write: bool) -> Segment {
        Segment { address, memory_size: size, offset, file_size: size, write, execute: false }
    }

    #[test]
    fn constants_and_code_that_lie_as_in_the_file_are_one_run() {
        let text = [
            segment(0, 0, 0x1234, false),
            segment(0x2000, 0x2000, 0x5000, false),
            segment(0x7000, 0x7000, 0x10, false),
            segment(0x8f00, 0x7f00, 0x200, true),
        ];
        let lengths = |segments| mappings(segments).map(<[Segment]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&text), [3, 1]);
        assert_eq!(lengths(&text[3..]), [1]);
    }

    #[test]
    fn a_hole_or_another_offset_ends_a_run() {
        let hole = [segment(0, 0, 0x1000, false), segment(0x2000, 0x2000, 0x10, false)];
        assert_eq!(constant_run(&hole), Some(1));
        let moved = [segment(0, 0, 0x1000, false), segment(0x1000, 0x800, 0x10, false)];
        assert_eq!(constant_run(&moved), Some(1));
    }
}

//! Mapping: an image's segments at an address of their own.

use std::path::Path;
use std::ptr;

use crate::error::{Error, Result};
use crate::image::{Image, Segment};
use crate::sys::memory::{Protection, Reservation};
use crate::sys::{page_down, page_up};

/// Maps the segments of `image` from its file, private to the process: pages that nobody writes
/// stay the page cache's.
pub(crate) fn map(image: &Image) -> Result<Reservation> {
    let failed = |action, length| {
        let object = image.path.clone();
        move |source| Error::Memory { object, action, length, source }
    };
    let memory =
        Reservation::new(image.span, image.alignment).map_err(failed("reserve", image.span))?;
    for segment in &image.segments {
        map_segment(&memory, image, segment)
            .map_err(failed("map a segment of", segment.memory_size))?;
    }
    Ok(memory)
}

fn map_segment(memory: &Reservation, image: &Image, segment: &Segment) -> std::io::Result<()> {
    let protection = match (segment.write, segment.execute) {
        (true, _) => Protection::ReadWrite,
        (false, true) => Protection::ReadExecute,
        (false, false) => Protection::Read,
    };
    let end = |size| page_up(segment.address + size).expect("the span was validated");
    let start = page_down(segment.address);
    let file_end = if segment.file_size > 0 { end(segment.file_size) } else { start };
    if file_end > start {
        let skipped = segment.address - start;
        memory.map_file(
            start,
            file_end - start,
            &image.file,
            segment.offset - skipped as u64,
            protection,
        )?;
    }
    let memory_end = end(segment.memory_size);
    if memory_end > file_end {
        memory.map_zeroes(file_end, memory_end - file_end, protection)?;
    }
    let tail = segment.address + segment.file_size;
    if segment.write && segment.memory_size > segment.file_size && file_end > tail {
        // SAFETY: the bytes from the end of the file's part to the end of its last page lie in the
        // page just mapped, which is writable and private; the file has something else there, the
        // gABI wants zeroes.
        unsafe { ptr::write_bytes((memory.base() + tail) as *mut u8, 0, file_end - tail) };
    }
    Ok(())
}

/// Makes the RELRO range read-only, as the last act of relocation.
pub(crate) fn protect_relro(image: &Image, memory: &Reservation) -> Result<()> {
    let Some((start, end)) = image.relro else { return Ok(()) };
    memory.protect(start, end - start, Protection::Read).map_err(|source| Error::Memory {
        object: Path::new(&image.path).to_owned(),
        action: "protect the RELRO part of",
        length: end - start,
        source,
    })
}

//! The exchange of anonymous pages for pages of a file with the same bytes.
//!
//! Concurrent readers of the pages must not notice, and no concurrent write may be lost. The caller keeps out code that goes
//! through Python. Native code that has kept an address in Python's memory cannot be kept out. Its writes are found as follows:
//!
//! 1. An atomic write that changes nothing makes each page this process's own. From now on a write no longer makes the kernel
//!    copy the page, be it new, swapped out, or shared with a forked child.
//! 2. vmsplice(2) puts the pages themselves into a pipe, not copies. A later write to them changes the bytes that will
//!    be read from the pipe.
//! 3. The pages are written to the file.
//! 4. One mmap(2) puts the file's pages in their place. The kernel changes the mapping under its lock, and makes all processors
//!    forget the old one before it returns. An earlier read or write reaches the old page, a later one the file's copy.
//! 5. The pipe is read. Now nobody can write the old pages any more. Where their words differ from those that went to the file, a
//!    write fell between the steps 3 and 4. It is repeated in the new page, word by word, unless a later write is there.
//!
//! A word that is written after step 3, and gets its former value back after step 4, looks as if only the first write had
//! happened. Of two small objects in one word, the first loses its write if the other is written after step 4. The memory
//! does not show these cases. So each exchange is small, and only microseconds pass between the steps.

use hydrozoa_payload::pages::page_size;
use memmap2::MmapMut;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Pages that are exchanged at once: the default capacity of a pipe (pipe(7)).
const PIECE: usize = 16;

/// Bytes that are taken for one object: the size of most locks, counters and halves of addresses.
const WORD: usize = size_of::<u32>();

/// A file and the means to put its pages in the place of others.
pub(crate) struct Exchange<'file> {
    file: &'file File,
    /// How much of the file is used.
    offset: u64,
    reader: File,
    writer: OwnedFd,
    /// Bytes of a piece.
    piece: usize,
    /// The bytes that the file has got, and the last bytes of the old pages. Both are mappings of their own: malloc would keep
    /// the memory for the thread.
    copied: MmapMut,
    last: MmapMut,
}

impl<'file> Exchange<'file> {
    /// For a new file. All memory that is needed is taken now.
    pub(crate) fn new(file: &'file File) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the place has room for two descriptors.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
        // SAFETY: both are new, and nobody else has them.
        let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // SAFETY: the descriptor is a pipe's. A user with many pipes gets smaller ones.
        let room = check(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ) }.into())?;
        let piece = (PIECE * page_size()).min(room as usize);
        let (copied, last) = (MmapMut::map_anon(piece)?, MmapMut::map_anon(piece)?);
        Ok(Self { file, offset: 0, reader: reader.into(), writer, piece, copied, last })
    }

    /// Exchanges the pages of a range. After an error those that were exchanged before stay so, and the others are as they
    /// were.
    ///
    /// # Safety
    ///
    /// The pages are private and writable, and the caller has a say over them: nobody unmaps them meanwhile. Nobody
    /// who shares this process's memory writes them but by the processor (no device).
    pub(crate) unsafe fn exchange(&mut self, range: Range<usize>) -> io::Result<()> {
        let mut start = range.start;
        let outcome = loop {
            if start == range.end {
                break Ok(());
            }
            // SAFETY: a part of the range.
            match unsafe { self.exchange_piece(start, self.piece.min(range.end - start)) } {
                Ok(length) => start += length,
                Err(error) => break Err(error),
            }
        };
        comes_back_by_pages(range.start..start);
        outcome
    }

    /// The same for pages that are read-only. Meanwhile they are writable.
    ///
    /// # Safety
    ///
    /// As [`Exchange::exchange`], but for the right to write.
    pub(crate) unsafe fn exchange_constants(&mut self, range: Range<usize>) -> io::Result<()> {
        protect(&range, libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: by contract, and the pages are writable now.
        let outcome = unsafe { self.exchange(range.clone()) };
        if let Err(error) = protect(&range, libc::PROT_READ) {
            // Nothing relies on it that nobody can write them.
            tracing::warn!(%error, "constants of a library stay writable");
        }
        outcome
    }

    /// Exchanges some pages from `start` on, and returns their bytes.
    ///
    /// # Safety
    ///
    /// As [`Exchange::exchange`].
    unsafe fn exchange_piece(&mut self, start: usize, length: usize) -> io::Result<usize> {
        for page in (start..start + length).step_by(page_size()) {
            let word = word(page);
            let now = word.load(Ordering::Relaxed);
            // An exchange is a write to the processor whatever it finds.
            let _ = word.compare_exchange(now, now, Ordering::Relaxed, Ordering::Relaxed);
        }
        let place: *mut libc::c_void = ptr::with_exposed_provenance_mut(start);
        let length = splice(&self.writer, place, length)?;
        if let Err(error) = self.write(place, length) {
            self.reader_drains(length)?;
            return Err(error);
        }
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        let (file, offset) = (self.file.as_raw_fd(), self.offset as i64);
        // SAFETY: the pages are the caller's to replace, and the file has their bytes.
        let mapped =
            unsafe { libc::mmap(place, length, protection, flags | libc::MAP_FIXED, file, offset) };
        if mapped == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // SAFETY: the pipe has the bytes of these pages.
            unsafe { self.restore(place, length) };
            return Err(error);
        }
        self.offset += length as u64;
        read_all(self.reader.as_raw_fd(), self.last.as_mut_ptr().cast(), length)?;
        self.make_up(start, length);
        Ok(length)
    }

    /// Puts words that were written too late for the file into the pages from `start` on.
    fn make_up(&self, start: usize, length: usize) {
        let words = |bytes: &[u8]| bytes.as_chunks::<WORD>().0.to_vec();
        for page in (0..length).step_by(page_size()) {
            let bytes = page..page + page_size();
            if self.copied[bytes.clone()] == self.last[bytes.clone()] {
                continue;
            }
            let (copied, last) = (words(&self.copied[bytes.clone()]), words(&self.last[bytes]));
            for (index, (copied, last)) in copied.into_iter().zip(last).enumerate() {
                if copied != last {
                    // A word that is not the copied one any more was written later than the last one.
                    let [copied, last] = [copied, last].map(u32::from_ne_bytes);
                    let word = word(start + page + index * WORD);
                    let _ = word.compare_exchange(copied, last, Ordering::SeqCst, Ordering::SeqCst);
                }
            }
        }
    }

    /// Writes the bytes at `place` to the file, and reads them back. The kernel copies: to a program it would be a race with
    /// those who write.
    fn write(&mut self, place: *const libc::c_void, length: usize) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let (from, offset) = (place.wrapping_byte_add(done), self.offset as i64 + done as i64);
            // SAFETY: the pages are readable.
            let status =
                unsafe { libc::pwrite(self.file.as_raw_fd(), from, length - done, offset) };
            match check(status as i64) {
                Ok(0) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
                Ok(written) => done += written as usize,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.file.read_exact_at(&mut self.copied[..length], self.offset)
    }

    /// Takes the pages out of the pipe again.
    fn reader_drains(&mut self, length: usize) -> io::Result<()> {
        read_all(self.reader.as_raw_fd(), self.last.as_mut_ptr().cast(), length)
    }

    /// Restores the pages at `place` after a mapping has failed: older kernels have then unmapped the former ones
    /// (`mmap_region` in mm/mmap.c before 6.12).
    ///
    /// # Safety
    ///
    /// The pipe has the pages that were there.
    unsafe fn restore(&mut self, place: *mut libc::c_void, length: usize) {
        let mut resident = vec![0; length / page_size()];
        // SAFETY: the place has room for an answer for each page.
        if unsafe { libc::mincore(place, length, resident.as_mut_ptr()) } == 0 {
            // Nothing was unmapped. The pages in the pipe are in memory too.
            let _ = self.reader_drains(length);
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: nothing is there, and the addresses are the caller's.
        let mapped =
            unsafe { libc::mmap(place, length, protection, flags | libc::MAP_FIXED, -1, 0) };
        let is_restored =
            mapped != libc::MAP_FAILED && read_all(self.reader.as_raw_fd(), place, length).is_ok();
        if !is_restored {
            // A part of Python's memory is gone.
            tracing::error!("memory that was to be settled cannot be mapped again");
            std::process::abort();
        }
    }
}

fn word(address: usize) -> &'static AtomicU32 {
    // SAFETY: an aligned address in the callers' pages, which are readable and writable, and are accessed here by atomic
    // operations only.
    unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address)) }
}

/// Makes the kernel read a used page alone, without its neighbours. The default readahead around a page
/// (`read_ahead_kb`, 128 KiB and up to some MiB) would bring most of the memory back after a few hundred pages.
fn comes_back_by_pages(range: Range<usize>) {
    let place = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the pages are mapped, and the advice changes none of them. Without it they take more memory, no more.
    unsafe { libc::madvise(place, range.len(), libc::MADV_RANDOM) };
}

/// Makes the kernel read these pages in the background, many at once. An ending interpreter uses nearly all
/// of them, and would otherwise wait for each read alone.
pub(super) fn comes_back_at_once(range: &Range<usize>) {
    // The kernel reads no more for one advice than its window (mm/readahead.c, force_page_cache_ra). By default that has as much.
    const WINDOW: usize = 128 << 10;
    for start in range.clone().step_by(WINDOW) {
        let place = ptr::with_exposed_provenance_mut(start);
        let length = WINDOW.min(range.end - start);
        // SAFETY: the advice changes no page, whatever is mapped there.
        unsafe { libc::madvise(place, length, libc::MADV_WILLNEED) };
    }
}

fn protect(range: &Range<usize>, protection: libc::c_int) -> io::Result<()> {
    let place = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the pages are the callers', who say what may be done to them.
    check(unsafe { libc::mprotect(place, range.len(), protection) }.into()).map(drop)
}

/// Puts the pages at `place` into the pipe, as many as have room, and returns their bytes.
fn splice(writer: &OwnedFd, place: *mut libc::c_void, length: usize) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: place, iov_len: length };
    loop {
        let flags = libc::SPLICE_F_NONBLOCK;
        // SAFETY: the pages are mapped; the pipe refers to them until they are read from it.
        match check(unsafe { libc::vmsplice(writer.as_raw_fd(), &vector, 1, flags) } as i64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome.map(|spliced| spliced as usize),
        }
    }
}

fn read_all(reader: RawFd, place: *mut libc::c_void, length: usize) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        // SAFETY: the callers' places have so many bytes.
        let read = unsafe { libc::read(reader, place.wrapping_byte_add(done), length - done) };
        match check(read as i64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn check(status: i64) -> io::Result<i64> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settled_pages::file;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Private memory of so many pages, each of which begins with its number and `tag`.
    fn pages(count: usize, tag: u32) -> Range<usize> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let length = count * page_size();
        // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let range = start.expose_provenance()..start.expose_provenance() + length;
        for (number, page) in range.clone().step_by(page_size()).enumerate() {
            word(page).store(number as u32, Ordering::Relaxed);
            word(page + WORD).store(tag, Ordering::Relaxed);
        }
        range
    }

    fn file() -> File {
        let program = std::env::current_exe().unwrap();
        file::unlinked(program.parent().unwrap()).unwrap()
    }

    fn anonymous(range: &Range<usize>) -> usize {
        let map = crate::settled_pages::Pagemap::open().unwrap();
        crate::settled_pages::bytes(&map.anonymous(std::slice::from_ref(range)).unwrap())
    }

    #[test]
    fn pages_become_those_of_a_file_with_the_same_bytes() {
        let range = pages(1500, 7);
        assert_eq!(anonymous(&range), 1500 * page_size());
        let file = file();
        let mut exchange = Exchange::new(&file).unwrap();
        let part = range.start + page_size()..range.end - page_size();
        // SAFETY: the test's own pages.
        unsafe { exchange.exchange(part) }.unwrap();
        drop(exchange);
        drop(file);
        assert_eq!(anonymous(&range), 2 * page_size());
        for (number, page) in range.clone().step_by(page_size()).enumerate() {
            assert_eq!(word(page).load(Ordering::Relaxed), number as u32);
            assert_eq!(word(page + WORD).load(Ordering::Relaxed), 7);
        }
        word(range.start + 5 * page_size() + WORD).store(8, Ordering::Relaxed);
        assert_eq!(anonymous(&range), 3 * page_size());
    }

    /// The pages of a range that the kernel has in memory.
    fn resident(range: &Range<usize>) -> usize {
        let mut pages = vec![0_u8; range.len() / page_size()];
        let place = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: the place has room for an answer for each page.
        assert_eq!(unsafe { libc::mincore(place, range.len(), pages.as_mut_ptr()) }, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    fn pages_leave_memory_and_come_back_one_by_one_as_they_are_used() {
        let range = pages(1500, 7);
        let file = file();
        let mut exchange = Exchange::new(&file).unwrap();
        // SAFETY: the test's own pages.
        unsafe { exchange.exchange(range.clone()) }.unwrap();
        drop(exchange);
        file::leave_memory(&file).unwrap();
        assert_eq!(resident(&range), 0);
        for (number, page) in range.clone().step_by(page_size()).enumerate().step_by(100) {
            assert_eq!(word(page).load(Ordering::Relaxed), number as u32);
        }
        assert_eq!(resident(&range), 15);
        assert_eq!(anonymous(&range), 0);
        // Used pages stay.
        file::leave_memory(&file).unwrap();
        assert_eq!(resident(&range), 15);
    }

    #[test]
    fn what_is_written_meanwhile_is_not_lost() {
        const COUNT: usize = 512;
        let range = pages(COUNT, 0);
        // How often the writer has written all pages, and how many once more.
        let (mut passes, mut more) = (0, 0);
        let mut round = 0;
        // On a busy machine the writer may miss most of a round.
        while round < 200 || passes < 400 {
            round += 1;
            let stop = AtomicBool::new(false);
            let file = file();
            let mut exchange = Exchange::new(&file).unwrap();
            thread::scope(|scope| {
                let (stop, range) = (&stop, &range);
                let writer = scope.spawn(move || {
                    loop {
                        for (number, page) in
                            range.clone().step_by(page_size()).enumerate().skip(more)
                        {
                            if stop.load(Ordering::Relaxed) {
                                return (passes, number);
                            }
                            word(page + WORD).store(passes + 1, Ordering::Relaxed);
                        }
                        (passes, more) = (passes + 1, 0);
                    }
                });
                // SAFETY: the test's own pages.
                unsafe { exchange.exchange(range.clone()) }.unwrap();
                stop.store(true, Ordering::Relaxed);
                (passes, more) = writer.join().unwrap();
            });
            for (number, page) in range.clone().step_by(page_size()).enumerate() {
                let written = passes + u32::from(number < more);
                let found = [0, 1].map(|index| word(page + index * WORD).load(Ordering::Relaxed));
                assert_eq!(found, [number as u32, written], "round {round}");
            }
        }
    }

    #[test]
    fn pages_stay_as_they_are_where_the_file_takes_no_more() {
        let range = pages(600, 7);
        let name = c"settled".as_ptr();
        // SAFETY: a new descriptor, which nobody else has.
        let file = unsafe {
            let fd = libc::memfd_create(name, libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            File::from(OwnedFd::from_raw_fd(fd))
        };
        file.set_len((1 << 20) + 4096).unwrap();
        // SAFETY: the descriptor is a memory file's.
        let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_GROW) };
        assert_eq!(sealed, 0);
        let mut exchange = Exchange::new(&file).unwrap();
        for _ in 0..2 {
            // SAFETY: the test's own pages.
            let error = unsafe { exchange.exchange(range.clone()) }.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            for (number, page) in range.clone().step_by(page_size()).enumerate() {
                assert_eq!(word(page).load(Ordering::Relaxed), number as u32);
                word(page + WORD).store(9, Ordering::Relaxed);
            }
        }
    }
}

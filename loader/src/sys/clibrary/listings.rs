//! The system's databases from beginning to end: a program's position in the list of groups, services and so on.
//!
//! glibc has one position for a process, in its re-entrant functions too (getgrent_r(3)). A domain reads the whole list when
//! it asks for the first entry, and then goes through its own copy. One domain reads at a time.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int};
use std::ptr;

use super::records::{Layout, Record};
use crate::sys::errno::{errno, set_errno};
use crate::sys::lock::{Mutex, Rank, Reentrant, library_work};

/// A database.
#[derive(Debug)]
pub(super) struct Source {
    pub layout: Layout,
    /// Goes to its beginning. 0 if the database is missing, where that is known.
    pub rewind: fn() -> c_int,
    /// The next entry: a structure, which is the C library's or in the memory. Null behind the last one.
    pub next: fn(&mut Vec<u64>) -> *const u8,
    pub close: fn(),
}

/// The place where a function reports its result.
pub(super) type Found = *mut *const u8;

/// A domain's position in a database.
#[derive(Debug)]
pub(super) struct Listing {
    source: &'static Source,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// Whether the entries were read since the program last restarted the list.
    is_read: bool,
    /// Whether the database was there.
    is_there: bool,
    rest: VecDeque<Record>,
    /// The last one that the program has got.
    shown: Option<Record>,
}

/// One domain asks the C library for entries at a time.
static READING: Reentrant = Reentrant::new();

/// Does `work` with the C library's databases while no other domain does. A fork waits for it, up to a limit: the child
/// would find the C library's own locks locked.
pub(super) fn alone<T>(work: impl FnOnce() -> T) -> T {
    let _turn = READING.lock();
    library_work::begin();
    let result = work();
    library_work::end();
    result
}

impl Source {
    /// All entries, and whether the database is there.
    fn read(&self) -> (VecDeque<Record>, bool) {
        alone(|| {
            let is_there = (self.rewind)() != 0;
            let rest = self.rest();
            (self.close)();
            (rest, is_there)
        })
    }

    fn rest(&self) -> VecDeque<Record> {
        let mut memory = vec![0; 256];
        let mut all = VecDeque::new();
        loop {
            let next = (self.next)(&mut memory);
            if next.is_null() {
                return all;
            }
            // SAFETY: such a structure, which stays until the next one is asked for.
            all.push_back(unsafe { self.layout.record(next) });
        }
    }
}

impl Listing {
    pub(super) const fn of(source: &'static Source) -> Listing {
        let none = Progress { is_read: false, is_there: false, rest: VecDeque::new(), shown: None };
        Listing { source, progress: Mutex::new(Rank::Answers, none) }
    }

    /// Restarts the list.
    pub(super) fn forget(&self) {
        let rest = {
            let mut progress = self.progress.lock();
            progress.is_read = false;
            std::mem::take(&mut progress.rest)
        };
        drop(rest);
    }

    /// Whether the entries were read since the program last restarted the list.
    pub(super) fn is_read(&self) -> bool {
        self.progress.lock().is_read
    }

    /// Reads the entries unless that was done. Returns whether the database exists.
    pub(super) fn read(&self) -> bool {
        {
            let progress = self.progress.lock();
            if progress.is_read {
                return progress.is_there;
            }
        }
        let (rest, is_there) = self.source.read();
        self.fill(rest, is_there);
        is_there
    }

    pub(super) fn fill(&self, rest: VecDeque<Record>, is_there: bool) {
        let old = {
            let mut progress = self.progress.lock();
            (progress.is_read, progress.is_there) = (true, is_there);
            std::mem::replace(&mut progress.rest, rest)
        };
        drop(old);
    }

    /// The next entry that `is_it` accepts, or null. It stays until the next one is asked for.
    pub(super) fn next(&self, is_it: impl Fn(*const u8) -> bool) -> *mut u8 {
        let error = errno();
        self.read();
        let mut passed = Vec::new();
        let place = loop {
            let mut progress = self.progress.lock();
            let Some(record) = progress.rest.pop_front() else { break ptr::null_mut() };
            let place = record.place();
            if is_it(place) {
                passed.extend(progress.shown.replace(record));
                break place;
            }
            drop(progress);
            passed.push(record);
        };
        drop(passed);
        set_errno(error);
        place
    }

    /// Copies the next entry to the caller's memory. Returns 0, ERANGE or ENOENT.
    ///
    /// # Safety
    /// As getgrent_r(3).
    pub(super) unsafe fn copy(&self, head: *mut u8, rest: *mut u8, length: usize) -> c_int {
        self.read();
        let mut progress = self.progress.lock();
        let Some(record) = progress.rest.front() else { return libc::ENOENT };
        // SAFETY: the caller's promise.
        if !unsafe { self.source.layout.copy(record.place(), head, rest, length) } {
            return libc::ERANGE;
        }
        let passed = progress.rest.pop_front();
        drop(progress);
        drop(passed);
        0
    }
}

/// Calls `fill` with the memory, which begins with the structure. It grows while `fill` returns ERANGE.
pub(super) fn filled(
    layout: &Layout,
    memory: &mut Vec<u64>,
    fill: impl Fn(*mut u8, *mut c_char, usize, Found) -> c_int,
) -> *const u8 {
    let head = layout.size().div_ceil(size_of::<u64>());
    loop {
        let (begin, rest) = memory.split_at_mut(head);
        let mut found = ptr::null();
        let length = size_of_val(&rest[..]);
        match fill(begin.as_mut_ptr().cast(), rest.as_mut_ptr().cast(), length, &mut found) {
            0 => return found,
            libc::ERANGE => *memory = vec![0; 2 * memory.len()],
            _ => return ptr::null(),
        }
    }
}

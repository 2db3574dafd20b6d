//! The memory that interpreters and processes take.
//!
//! Private memory means the same for interpreters and for everything that they are compared with:
//! *anonymous* pages that no other process maps. An anonymous page belongs to no file. It is part of a heap or a stack,
//! or a page of a mapped file that was written and so became a copy. A page that a forked child still shares with its
//! parent is not private.
//!
//! [`Usage`] is the memory of a process. [`InterpreterMemory`] divides the private memory of one interpreter by owners.
//!
//! `Private_Dirty` of proc(5) is another quantity. It counts a page of a file that was written shortly before, and
//! does not count an anonymous page that the kernel holds clean.

mod interpreter;
mod pages;
mod table;

pub use interpreter::{InterpreterMemory, Library, Package};

use crate::interpreter::Interpreter;
use crate::{Error, Result};
use pages::Pagemap;
use std::fs;
use std::ops::Sub;
use std::path::{Path, PathBuf};

/// Memory of a process in bytes, from `/proc/PID/smaps` and `/proc/PID/pagemap` (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Anonymous pages that no other process maps, in memory or swapped out.
    pub private: i64,
    /// `Pss`: all resident pages, each divided by the number of mappings that share it.
    pub proportional: i64,
    /// `Rss`: all resident pages.
    pub resident: i64,
}

impl Usage {
    /// The memory that this process uses now. The difference of two readings, before and after the start of
    /// an interpreter or a load, is the cost of it if nothing else allocates meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn of_process() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// The memory that a process uses now.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], if the process has ended, or this one may not trace it (ptrace(2)).
    pub fn of(process: u32) -> Result<Self> {
        Self::of_mappings(process, |_| true)
    }

    /// The memory of a process in its mappings of `file`. Private pages are those that it has copied.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], as for [`Usage::of`], or when the file does not exist.
    pub fn of_file(process: u32, file: &Path) -> Result<Self> {
        let failed = |source| Error::Io { path: file.to_owned(), source };
        let file = file.canonicalize().map_err(failed)?;
        Self::of_mappings(process, |mapped| file.to_str() == Some(mapped))
    }

    /// Sums the mappings whose file's path, or empty text, `wanted` accepts.
    fn of_mappings(process: u32, wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let pagemap = Pagemap::of(process)?;
        let path = PathBuf::from(format!("/proc/{process}/smaps"));
        let text = fs::read_to_string(&path).map_err(|source| Error::Io { path, source })?;
        let mut usage = Self::default();
        for mapping in pages::mappings(&text).filter(|mapping| wanted(mapping.file)) {
            usage.proportional += mapping.proportional;
            usage.resident += mapping.resident;
            // Most mappings have none, and some of those are enormous reservations.
            if mapping.anonymous != 0 {
                usage.private += pagemap.count(mapping.range)?.private as i64;
            }
        }
        Ok(usage)
    }
}

/// Returns free heap pages to the kernel: of the interpreter, and in all of malloc's arenas.
///
/// A load makes and frees tens of thousands of objects, and the first call makes the largest
/// intermediate results. glibc by itself returns only free memory at the end of an arena
/// (malloc_trim(3)), and an object of the model that lies behind it keeps everything. So this is done
/// once for each load, when the session ends in which it happened. It is not done for each call: the
/// next call would fault the pages in again.
///
/// Each arena is locked while it is looked at (`mtrim` in glibc's malloc/malloc.c). With four
/// interpreters that have torch and a resnet18 each, 1.6 GB, the whole of it takes 1 ms of processor
/// time after a load, 3 ms after a load with a large call, and 0.02 to 0.5 ms with nothing to return.
/// A load takes hundreds of times as long.
pub(crate) fn give_back(interpreter: &Interpreter) {
    let start = std::time::Instant::now();
    if let Some(heap) = interpreter.0.heap() {
        heap.trim();
    }
    // SAFETY: the function takes any padding, and locks each arena while it looks at it.
    let released = unsafe { libc::malloc_trim(0) };
    tracing::debug!(released = released != 0, elapsed = ?start.elapsed(), "malloc gave back");
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            private: self.private - earlier.private,
            proportional: self.proportional - earlier.proportional,
            resident: self.resident - earlier.resident,
        }
    }
}

//! What code of a domain has of the process: mappings, thread keys, threads.
//!
//! A library that is loaded once leaves it to the end of the process. A domain may end long before.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::sys::lock::{Mutex, Rank};
use crate::sys::ranges::Ranges;
use crate::sys::{memory, thread};

/// The list of it.
#[derive(Debug)]
pub(crate) struct Belongings(Mutex<Lists>);

#[derive(Debug)]
struct Lists {
    /// Addresses that its code has mapped.
    mappings: Ranges,
    /// Keys that its code has made.
    keys: BTreeSet<libc::pthread_key_t>,
    /// Threads that its code creates, and whose numbers are not known yet.
    newborn: usize,
    /// The kernel's numbers of threads that its code has created. Some of them may have ended.
    threads: Vec<libc::pid_t>,
    /// At this length of the list, threads that have ended are taken out.
    full: usize,
}

impl Belongings {
    pub(crate) const fn none() -> Belongings {
        let lists = Lists {
            mappings: Ranges::new(),
            keys: BTreeSet::new(),
            newborn: 0,
            threads: Vec::new(),
            full: 16,
        };
        Belongings(Mutex::new(Rank::Belongings, lists))
    }

    /// Notes a mapping.
    pub(crate) fn note_mapping(&self, range: Range<usize>) {
        self.0.lock().mappings.add(range);
    }

    /// Forgets what of a range was noted, and returns it.
    pub(crate) fn forget_mapping(&self, range: Range<usize>) -> Vec<Range<usize>> {
        self.0.lock().mappings.remove(range)
    }

    /// Notes a key.
    pub(crate) fn note_key(&self, key: libc::pthread_key_t) {
        self.0.lock().keys.insert(key);
    }

    /// Forgets a key.
    pub(crate) fn forget_key(&self, key: libc::pthread_key_t) {
        self.0.lock().keys.remove(&key);
    }

    /// Notes that a thread is about to be created.
    pub(crate) fn begin_thread(&self) {
        self.0.lock().newborn += 1;
    }

    /// Notes that it was not created.
    pub(crate) fn no_thread(&self) {
        self.0.lock().newborn -= 1;
    }

    /// Notes that it is the calling thread.
    pub(crate) fn note_thread(&self) {
        let lists = &mut *self.0.lock();
        lists.newborn -= 1;
        if lists.threads.len() >= lists.full {
            lists.threads.retain(|&task| thread::exists(task));
            lists.full = 16.max(2 * lists.threads.len());
        }
        lists.threads.push(thread::number());
    }

    /// Whether threads that its code has created still run.
    pub(crate) fn has_threads(&self) -> bool {
        let lists = &mut *self.0.lock();
        lists.threads.retain(|&task| thread::exists(task));
        lists.newborn > 0 || !lists.threads.is_empty()
    }

    /// Deletes its keys, so that nothing is called for them at the end of a thread, and unmaps what it has mapped.
    ///
    /// # Safety
    /// No code of the domain runs, and nobody refers to the memory that it has mapped.
    pub(crate) unsafe fn give_back(&self) {
        let (keys, mappings) = {
            let lists = &mut *self.0.lock();
            (std::mem::take(&mut lists.keys), std::mem::take(&mut lists.mappings))
        };
        for key in keys {
            thread::delete(key);
        }
        for range in mappings.iter() {
            // SAFETY: the caller's promise.
            unsafe { memory::unmap(range.start, range.len()) };
        }
    }
}

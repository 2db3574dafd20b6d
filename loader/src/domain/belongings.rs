//! The process resources that a domain's code holds: mappings, thread keys, threads.
//!
//! A library that is loaded once leaves them to the end of the process. A domain may end long before.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::sys::lock::{Mutex, Rank};
use crate::sys::ranges::Ranges;
use crate::sys::{memory, thread};
use crate::tls::{Placed, specific};

/// The list of it.
#[derive(Debug)]
pub(crate) struct Belongings(Mutex<Lists>);

#[derive(Debug)]
struct Lists {
    /// Addresses that its code has mapped.
    mappings: Ranges,
    /// Thread keys that its code has made.
    keys: BTreeSet<libc::pthread_key_t>,
    /// Threads that its code creates, and whose numbers are not known yet.
    newborn: usize,
    /// The threads that its code has created. Some of them may have ended.
    threads: Vec<Thread>,
    /// At this length of the list, threads that have ended are taken out.
    full: usize,
}

/// A thread: its kernel number, its stack, if known, and the address of its start routine.
#[derive(Debug)]
struct Thread {
    number: libc::pid_t,
    stack: Range<usize>,
    start: usize,
}

impl Thread {
    fn runs(&self) -> bool {
        thread::exists(self.number)
    }
}

impl Domain {
    /// Addresses that the domain's code has mapped (mmap(2)) and not unmapped, in ascending order. The segments of its
    /// replicas, which the loader maps, are not among them.
    pub fn mappings(&self) -> Vec<Range<usize>> {
        self.0.belongings.mappings()
    }

    /// The stacks of the threads that the domain's code has created and that have not ended, each with the thread's static
    /// TLS.
    pub fn stacks(&self) -> Vec<Range<usize>> {
        self.0.belongings.stacks()
    }

    /// The kernel's numbers of the threads that its code has created and that run, with their stacks: empty for an unknown one.
    /// glibc has a thread's descriptor, whose address is that of pthread_self(3), at the end of its stack. `None` while a thread is
    /// being created.
    pub fn threads(&self) -> Option<Vec<(libc::pid_t, Range<usize>)>> {
        self.0.belongings.threads()
    }

    /// The number of unended threads that the domain's code has created with a start routine in `code`, without the
    /// calling one.
    pub fn threads_of(&self, code: &Range<usize>) -> usize {
        self.0.belongings.threads_of(code)
    }

    /// Bytes of thread-local data that threads have allocated for the domain's replicas: those blocks that a thread gets
    /// when it first asks for them. Other blocks lie in the static TLS of each thread of the process.
    pub fn thread_local_bytes(&self) -> usize {
        let replicas: Vec<_> = self.0.state.lock().entries.replicas().cloned().collect();
        replicas.iter().filter_map(|replica| replica.tls()).map(Placed::allocated).sum()
    }
}

/// The kernel's numbers of the threads that code of a domain has created and that have not ended, without the calling one.
/// `None` while one begins whose number is not known yet.
pub fn threads_of(domain: DomainId) -> Option<Vec<libc::pid_t>> {
    domain::by_id(domain).map_or(Some(Vec::new()), |domain| domain.0.belongings.numbers())
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

    /// Forgets the noted parts of a range, and returns them.
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

    /// Notes that it is the calling thread, which begins at `start`.
    pub(crate) fn note_thread(&self, start: usize) {
        // It allocates, and asks the kernel: not under the lock.
        let stack = thread::stack().unwrap_or_default();
        let lists = &mut *self.0.lock();
        lists.newborn -= 1;
        if lists.threads.len() >= lists.full {
            lists.threads.retain(Thread::runs);
            lists.full = 16.max(2 * lists.threads.len());
        }
        lists.threads.push(Thread { number: thread::number(), stack, start });
    }

    /// The mappings that its code has made, in ascending order.
    pub(crate) fn mappings(&self) -> Vec<Range<usize>> {
        self.0.lock().mappings.iter().collect()
    }

    /// The stacks of its threads that have not ended.
    pub(crate) fn stacks(&self) -> Vec<Range<usize>> {
        let lists = &mut *self.0.lock();
        lists.threads.retain(Thread::runs);
        let stacks = lists.threads.iter().map(|thread| thread.stack.clone());
        stacks.filter(|stack| !stack.is_empty()).collect()
    }

    /// Whether threads that its code has created still run.
    pub(crate) fn has_threads(&self) -> bool {
        let lists = &mut *self.0.lock();
        lists.threads.retain(Thread::runs);
        lists.newborn > 0 || !lists.threads.is_empty()
    }

    /// The numbers of its threads that run, with their stacks, unless one begins just now.
    pub(crate) fn threads(&self) -> Option<Vec<(libc::pid_t, Range<usize>)>> {
        let lists = &mut *self.0.lock();
        lists.threads.retain(Thread::runs);
        let threads = lists.threads.iter().map(|thread| (thread.number, thread.stack.clone()));
        (lists.newborn == 0).then(|| threads.collect())
    }

    /// The numbers of its threads that run, without the calling one.
    fn numbers(&self) -> Option<Vec<libc::pid_t>> {
        let own = thread::number();
        let numbers = self.threads()?.into_iter().map(|(number, _)| number);
        Some(numbers.filter(|number| *number != own).collect())
    }

    /// The number of running threads that began in `code`, without the calling one.
    pub(crate) fn threads_of(&self, code: &Range<usize>) -> usize {
        let own = thread::number();
        let lists = &mut *self.0.lock();
        lists.threads.retain(Thread::runs);
        let others = lists.threads.iter().filter(|thread| thread.number != own);
        others.filter(|thread| code.contains(&thread.start)).count() + lists.newborn
    }

    /// Has the ends of threads call nothing for its keys. The keys stay.
    pub(crate) fn silence(&self) {
        self.0.lock().keys.iter().for_each(|key| specific::silence(*key));
    }

    /// Deletes its keys, so that nothing is called for them at the end of a thread, and unmaps its mappings.
    ///
    /// # Safety
    /// No code of the domain runs, and nobody refers to the memory that it has mapped.
    pub(crate) unsafe fn give_back(&self) {
        let (keys, mappings) = {
            let lists = &mut *self.0.lock();
            (std::mem::take(&mut lists.keys), std::mem::take(&mut lists.mappings))
        };
        for key in keys {
            specific::delete(key);
        }
        for range in mappings.iter() {
            // SAFETY: the caller's promise.
            unsafe { memory::unmap(range.start, range.len()) };
        }
    }
}

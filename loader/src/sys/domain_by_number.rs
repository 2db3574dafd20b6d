//! Kernel numbers, each with the domain that it belongs to.
//!
//! Signal handlers read and change them (wait(2) and close(2) are async-signal-safe), and so do children of a fork. So
//! they use no lock. Each entry holds the number of its process: in a forked child, inherited entries are free.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::id::DomainId;
use crate::sys::process::Process;

/// Numbers and their domains. It grows by [`COUNT`] entries, and never shrinks.
#[derive(Debug)]
pub(super) struct Slots {
    slots: [Slot; COUNT],
    next: AtomicPtr<Slots>,
}

/// The number and its process, or 0. The domain counts while the key stays the same.
#[derive(Debug)]
struct Slot {
    key: AtomicU64,
    domain: AtomicU32,
    is_marked: AtomicBool,
}

const COUNT: usize = 32;

/// In the place of a number while an entry is made.
const UNFINISHED: u32 = u32::MAX;

impl Slots {
    pub(super) const fn new() -> Slots {
        let slots = [const {
            Slot {
                key: AtomicU64::new(0),
                domain: AtomicU32::new(0),
                is_marked: AtomicBool::new(false),
            }
        }; COUNT];
        Slots { slots, next: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Gives a number to a domain, and takes it from any other. It allocates where all entries are in use.
    pub(super) fn add(&'static self, number: i32, domain: DomainId) {
        self.remove(number, None);
        let process = Process::current().number();
        let mut part = self;
        loop {
            if part.slots.iter().any(|slot| slot.take(process, number, domain)) {
                return;
            }
            part = part.next_or_new();
        }
    }

    /// Forgets a number, if it is the domain's.
    pub(super) fn remove(&'static self, number: i32, domain: Option<DomainId>) {
        let process = Process::current().number();
        for slot in self.all() {
            let key = slot.key.load(Ordering::Acquire);
            let is_meant = domain.is_none_or(|one| slot.domain.load(Ordering::Acquire) == one.0);
            if key == key_of(process, number) && is_meant {
                let _ = slot.key.compare_exchange(key, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Marks a number. False if it was marked before.
    pub(super) fn mark(&'static self, number: i32) -> bool {
        let key = key_of(Process::current().number(), number);
        let mut slots = self.all().filter(|slot| slot.key.load(Ordering::Acquire) == key);
        slots.next().is_some_and(|slot| !slot.is_marked.swap(true, Ordering::AcqRel))
    }

    /// The domain of a number.
    pub(super) fn domain_of(&'static self, number: i32) -> Option<DomainId> {
        self.entries().find(|(known, _)| *known == number).map(|(_, domain)| domain)
    }

    /// The numbers of a domain.
    pub(super) fn of(&'static self, domain: DomainId) -> impl Iterator<Item = i32> {
        self.entries().filter(move |(_, one)| *one == domain).map(|(number, _)| number)
    }

    /// Gives all numbers of a domain to another.
    pub(super) fn pass_on(&'static self, from: DomainId, to: DomainId) {
        for slot in self.all() {
            let _ = slot.domain.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The numbers and their domains.
    pub(super) fn entries(&'static self) -> impl Iterator<Item = (i32, DomainId)> {
        let process = Process::current().number();
        self.all().filter_map(move |slot| {
            let key = slot.key.load(Ordering::Acquire);
            let domain = DomainId(slot.domain.load(Ordering::Acquire));
            let is_whole = (key >> 32) as u32 == process && key as u32 != UNFINISHED;
            (is_whole && slot.key.load(Ordering::Acquire) == key).then_some((key as i32, domain))
        })
    }

    fn all(&'static self) -> impl Iterator<Item = &'static Slot> {
        let next = |part: &&'static Slots| {
            // SAFETY: null, or a part that `next_or_new` has leaked.
            unsafe { part.next.load(Ordering::Acquire).as_ref() }
        };
        std::iter::successors(Some(self), next).flat_map(|part| &part.slots)
    }

    fn next_or_new(&'static self) -> &'static Slots {
        let known = self.next.load(Ordering::Acquire);
        // SAFETY: as in `all`.
        if let Some(known) = unsafe { known.as_ref() } {
            return known;
        }
        let new = Box::into_raw(Box::new(Slots::new()));
        let before = ptr::null_mut();
        match self.next.compare_exchange(before, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked just now, and never freed.
            Ok(_) => unsafe { &*new },
            Err(known) => {
                // SAFETY: nobody else has seen the new one, and the known one was leaked by another thread.
                unsafe {
                    drop(Box::from_raw(new));
                    &*known
                }
            }
        }
    }
}

impl Slot {
    /// Takes the entry for a number, if it is free.
    fn take(&self, process: u32, number: i32, domain: DomainId) -> bool {
        let key = self.key.load(Ordering::Relaxed);
        let is_free = key == 0 || (key >> 32) as u32 != process;
        let unfinished = key_of(process, UNFINISHED as i32);
        let taken = is_free
            && self
                .key
                .compare_exchange(key, unfinished, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if taken {
            self.domain.store(domain.0, Ordering::Release);
            self.is_marked.store(false, Ordering::Release);
            self.key.store(key_of(process, number), Ordering::Release);
        }
        taken
    }
}

fn key_of(process: u32, number: i32) -> u64 {
    u64::from(process) << 32 | u64::from(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_the_last_domain_that_got_them() {
        static SLOTS: Slots = Slots::new();
        let [one, other] = [DomainId(1), DomainId(2)];
        for number in 1..=100 {
            SLOTS.add(number, one);
        }
        SLOTS.add(7, other);
        SLOTS.remove(8, Some(other));
        SLOTS.remove(9, Some(one));
        assert_eq!(SLOTS.of(one).count(), 98);
        assert_eq!(SLOTS.of(other).collect::<Vec<_>>(), [7]);
        let owners = [7, 8, 9].map(|number| SLOTS.domain_of(number));
        assert_eq!(owners, [Some(other), Some(one), None]);
        SLOTS.pass_on(one, other);
        assert_eq!((SLOTS.of(one).count(), SLOTS.of(other).count()), (0, 99));
    }
}

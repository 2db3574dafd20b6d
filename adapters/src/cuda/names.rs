//! Translates a host program's name of a kernel or variable into the runtime's; names used before need no lock.

use super::registry;
use super::runtime::Runtime;
use hydrozoa_loader::{LeafLock, Located};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A kernel or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The name that the runtime knows.
    pub(super) real: usize,
    /// Whether it exists once for all interpreters.
    pub(super) is_shared: bool,
    /// The runtime that knows it.
    pub(super) runtime: Runtime,
}

/// An entry of a table. It is written once: `name` last.
#[derive(Debug, Default)]
struct NameSlot {
    name: AtomicUsize,
    real: AtomicUsize,
    /// The runtime's number, doubled, and 1 for what is shared; doubled again, and 1 if the runtime is.
    facts: AtomicUsize,
}

/// Names by their hashes. At least half of the entries are free.
#[derive(Debug)]
struct Table(Box<[NameSlot]>);

/// The current table. Former ones are kept, since somebody may read them: they are as large as this one together.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// How many names the table has. It is held while one is added.
static COUNT: LeafLock<usize> = LeafLock::new(0);

/// The entries of the first table.
const FIRST: usize = 256;

impl Table {
    fn with_room_for(entries: usize) -> Self {
        Self((0..entries).map(|_| NameSlot::default()).collect())
    }

    /// The entries in which `name` may be, in their order.
    fn places(&self, name: usize) -> impl Iterator<Item = &NameSlot> {
        let mask = self.0.len() - 1;
        let hash = (name as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (0..=mask).map(move |step| &self.0[(hash as usize + step) & mask])
    }

    #[inline]
    fn find(&self, name: usize) -> Option<Named> {
        for entry in self.places(name) {
            match entry.name.load(Ordering::Acquire) {
                0 => return None,
                found if found == name => {
                    let facts = entry.facts.load(Ordering::Relaxed);
                    let runtime = Runtime { number: facts >> 2, is_shared: facts & 1 != 0 };
                    let real = entry.real.load(Ordering::Relaxed);
                    return Some(Named { real, is_shared: facts & 2 != 0, runtime });
                }
                _ => {}
            }
        }
        None
    }

    fn add(&self, name: usize, named: Named) {
        let facts = named.runtime.number << 2
            | usize::from(named.is_shared) << 1
            | usize::from(named.runtime.is_shared);
        if let Some(free) = self.places(name).find(|entry| entry.name.load(Ordering::Relaxed) == 0)
        {
            free.real.store(named.real, Ordering::Relaxed);
            free.facts.store(facts, Ordering::Relaxed);
            free.name.store(name, Ordering::Release);
        }
    }

    /// The current one.
    fn current() -> Option<&'static Self> {
        // SAFETY: null, or a table that is never freed.
        unsafe { TABLE.load(Ordering::Acquire).as_ref() }
    }
}

/// The kernel or variable called `name`; none if the name lies outside all replicas, as a kernel's handle does.
#[inline]
pub(super) fn named(name: usize) -> Option<Named> {
    Table::current().and_then(|table| table.find(name)).or_else(|| look_up(name))
}

#[cold]
fn look_up(name: usize) -> Option<Named> {
    let named = match registry::shared(name) {
        Some((real, runtime)) => Named { real, is_shared: true, runtime },
        None => {
            let replica = Located::at(ptr::without_provenance(name))?;
            let runtime = Runtime::of(|name| replica.definition(name))?;
            Named { real: name, is_shared: false, runtime }
        }
    };
    COUNT.with(|count| {
        let table = Table::current();
        if table.is_some_and(|table| table.find(name).is_some()) {
            return;
        }
        let room = table.map_or(0, |table| table.0.len());
        if *count * 2 >= room {
            let larger = Table::with_room_for((room * 2).max(FIRST));
            for entry in table.into_iter().flat_map(|table| &table.0) {
                let name = entry.name.load(Ordering::Relaxed);
                if let Some(named) = table.and_then(|table| table.find(name)).filter(|_| name != 0)
                {
                    larger.add(name, named);
                }
            }
            TABLE.store(Box::leak(Box::new(larger)), Ordering::Release);
        }
        if let Some(table) = Table::current() {
            table.add(name, named);
            *count += 1;
        }
    });
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_what_was_added_and_nothing_else() {
        let table = Table::with_room_for(64);
        let runtime = |number| Runtime { number, is_shared: number % 2 == 0 };
        let named = |name: usize| Named {
            real: name + 1,
            is_shared: name.is_multiple_of(3),
            runtime: runtime(name % 5),
        };
        for name in (0x1000..0x1000 + 32 * 16).step_by(16) {
            assert_eq!(table.find(name), None);
            table.add(name, named(name));
            assert_eq!(table.find(name), Some(named(name)));
        }
        assert_eq!((table.find(0x1000), table.find(0xff0)), (Some(named(0x1000)), None));
    }
}

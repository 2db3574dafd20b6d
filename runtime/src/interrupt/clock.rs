//! The clock: one thread of the process, which calls visits when their time comes.

use super::visit::Visit;
use crate::thread::Thread;
use hydrozoa_loader::LeafLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread as Parked};
use std::time::Instant;

/// The key of an entry: its time, and a number of its own.
pub(super) type Key = (Instant, u64);

/// The action at an entry's time. It must not wait.
pub(super) type Action = fn(&Arc<Visit>);

struct TimedCall {
    visit: Arc<Visit>,
    action: Action,
}

/// The entries, and when the clock looks at them next.
#[derive(Default)]
struct Schedule {
    calls: BTreeMap<Key, TimedCall>,
    /// `None` while it waits for a first entry. Entries are removed without a word to the clock, so this may be earlier than all.
    looks_at: Option<Instant>,
}

static SCHEDULE: LeafLock<Schedule> =
    LeafLock::new(Schedule { calls: BTreeMap::new(), looks_at: None });

/// The process whose clock runs: a forked child has no other thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static RUNNING: LeafLock<Option<Parked>> = LeafLock::new(None);

/// Has the clock call `action` with the visit at `time`, unless the entry is removed before.
pub(super) fn add(time: Instant, visit: &Arc<Visit>, action: Action) -> Key {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = hydrozoa_loader::Process::current().number();
    let before = PROCESS.swap(process, Ordering::AcqRel);
    if before != process && before != 0 {
        // The entries are those of threads that this process does not have.
        drop(SCHEDULE.with(std::mem::take));
        drop(RUNNING.with(Option::take));
    }
    let key = (time, NEXT.fetch_add(1, Ordering::Relaxed));
    let entry = TimedCall { visit: visit.clone(), action };
    // Calls with one limit come in order: the clock is not woken for each.
    let is_earlier = SCHEDULE.with(|schedule| {
        schedule.calls.insert(key, entry);
        schedule.looks_at.is_none_or(|looks_at| time < looks_at)
    });
    if before != process {
        match Thread::helper("deadlines", run) {
            Ok(thread) => thread.detach(),
            Err(error) => {
                PROCESS.store(0, Ordering::Release);
                tracing::warn!(%error, "no thread for deadlines: calls are not interrupted");
            }
        }
    } else if is_earlier && let Some(clock) = RUNNING.with(|clock| clock.clone()) {
        clock.unpark();
    }
    key
}

/// Removes an entry, if it is still there.
pub(super) fn remove(key: Key) {
    // Dropped outside of the lock.
    drop(SCHEDULE.with(|schedule| schedule.calls.remove(&key)));
}

fn run() {
    RUNNING.with(|clock| *clock = Some(thread::current()));
    loop {
        let now = Instant::now();
        let due = SCHEDULE.with(|schedule| {
            // It looks once more below, so nobody need wake it until then.
            schedule.looks_at = Some(now);
            let later = schedule.calls.split_off(&(now, u64::MAX));
            std::mem::replace(&mut schedule.calls, later)
        });
        for entry in due.into_values() {
            (entry.action)(&entry.visit);
        }
        let next = SCHEDULE.with(|schedule| {
            schedule.looks_at = schedule.calls.first_key_value().map(|((time, _), _)| *time);
            schedule.looks_at
        });
        match next {
            Some(next) => thread::park_timeout(next.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}

//! Messages to the thread that collects results.

use super::job::{lock, wait};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

/// Instead of a tag: another worker could help.
pub(crate) const FEW: u64 = u64::MAX;

/// Results that nobody looked for, and what else the collector waits for.
pub(crate) struct Notices {
    state: Mutex<Pending>,
    change: Condvar,
}

struct Pending {
    ended: VecDeque<u64>,
    are_few: bool,
    /// Workers that run.
    present: usize,
    is_closing: bool,
}

impl Notices {
    pub(crate) fn new() -> Self {
        let state =
            Pending { ended: VecDeque::new(), are_few: false, present: 0, is_closing: false };
        Self { state: Mutex::new(state), change: Condvar::new() }
    }

    /// A call has ended, and nobody looks for its result.
    pub(crate) fn ended(&self, tag: u64) {
        lock(&self.state).ended.push_back(tag);
        self.change.notify_one();
    }

    /// A call waits that no idle worker will take at once.
    pub(crate) fn are_few(&self) {
        lock(&self.state).are_few = true;
        self.change.notify_one();
    }

    /// A worker's thread is about to start.
    pub(crate) fn arrives(&self) {
        lock(&self.state).present += 1;
    }

    /// A worker's thread ends, or has not started.
    pub(crate) fn leaves(&self) {
        lock(&self.state).present -= 1;
        self.change.notify_all();
    }

    /// No further calls will come.
    pub(crate) fn close(&self) {
        lock(&self.state).is_closing = true;
        self.change.notify_all();
    }

    /// Waits for ended calls whose results nobody looked for, and writes their tags, or [`FEW`]. Returns how many. 0
    /// means that no further calls will come, and all workers have ended.
    pub(crate) fn collect(&self, tags: &mut [u64]) -> usize {
        let mut state = lock(&self.state);
        while state.ended.is_empty() && !state.are_few && !(state.is_closing && state.present == 0)
        {
            state = wait(&self.change, state);
        }
        let mut count = 0;
        while count < tags.len() {
            let few = std::mem::take(&mut state.are_few).then_some(FEW);
            let Some(tag) = few.or_else(|| state.ended.pop_front()) else { break };
            tags[count] = tag;
            count += 1;
        }
        count
    }
}

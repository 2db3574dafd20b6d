//! The queue of requests that any free worker takes from.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// Requests in order of arrival, up to a limit.
pub(crate) struct Queue<T> {
    state: Mutex<VecDeque<T>>,
    added: Condvar,
    most: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), added: Condvar::new(), most }
    }

    /// Adds a request, or gives it back if too many wait.
    pub(crate) fn add(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.len() >= self.most {
            return Err(item);
        }
        state.push_back(item);
        drop(state);
        self.added.notify_one();
        Ok(())
    }

    /// Waits for a request. `None` once `is_leaving` says so: then the others take what waits.
    pub(crate) fn take(&self, is_leaving: impl Fn() -> bool) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if is_leaving() {
                if !state.is_empty() {
                    // It may have been woken for one.
                    self.added.notify_one();
                }
                return None;
            }
            if let Some(item) = state.pop_front() {
                return Some(item);
            }
            self.added.wait(&mut state);
        }
    }

    /// Has all who wait ask again whether they are leaving.
    pub(crate) fn wake(&self) {
        // Nobody is between the question and the wait.
        drop(self.state.lock());
        self.added.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_worker_that_leaves_loses_no_request() {
        let queue = Queue::new(2);
        assert_eq!((queue.add(1), queue.add(2), queue.add(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!(queue.take(|| true), None);
        assert_eq!((queue.take(|| false), queue.take(|| false)), (Some(1), Some(2)));
        let leaves = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.take(|| leaves.load(Ordering::SeqCst)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            leaves.store(true, Ordering::SeqCst);
            queue.wake();
            assert_eq!(waits.join().unwrap(), None);
        });
        assert_eq!(queue.len(), 0);
    }
}

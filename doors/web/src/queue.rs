//! The queue of requests that any free worker takes from.
//!
//! Of several that are free, the one that was busy last takes the next request: its code and data are still in the processor's caches, and
//! the others' memory can rest.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::thread::{self, Thread};

/// Requests in order of arrival, up to a limit.
pub(crate) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    most: usize,
}

/// Requests and threads. Only one of both waits for long.
struct Waiting<T> {
    items: VecDeque<T>,
    /// The threads that wait, the one that was busy last at the end.
    free: Vec<Thread>,
}

impl<T> Queue<T> {
    pub(crate) fn new(most: usize) -> Self {
        let waiting = Waiting { items: VecDeque::new(), free: Vec::new() };
        Self { waiting: Mutex::new(waiting), most }
    }

    /// Adds a request, or gives it back if too many wait.
    pub(crate) fn add(&self, item: T) -> Result<(), T> {
        let mut waiting = self.waiting.lock();
        if waiting.items.len() >= self.most {
            return Err(item);
        }
        waiting.items.push_back(item);
        let next = waiting.free.pop();
        drop(waiting);
        next.inspect(Thread::unpark);
        Ok(())
    }

    /// Waits for a request. `None` once `is_leaving` says so: then the others take what waits.
    pub(crate) fn take(&self, is_leaving: impl Fn() -> bool) -> Option<T> {
        let own = thread::current().id();
        let mut waiting = self.waiting.lock();
        loop {
            if is_leaving() {
                // It may have been woken for one.
                let next = if waiting.items.is_empty() { None } else { waiting.free.pop() };
                drop(waiting);
                next.inspect(Thread::unpark);
                return None;
            }
            if let Some(item) = waiting.items.pop_front() {
                return Some(item);
            }
            waiting.free.push(thread::current());
            drop(waiting);
            thread::park();
            waiting = self.waiting.lock();
            // It may have woken by itself.
            waiting.free.retain(|thread| thread.id() != own);
        }
    }

    /// Has all who wait ask again whether they are leaving.
    pub(crate) fn wake(&self) {
        let free = std::mem::take(&mut self.waiting.lock().free);
        free.iter().for_each(Thread::unpark);
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_worker_that_leaves_loses_no_request() {
        let queue = Queue::new(2);
        assert_eq!((queue.add(1), queue.add(2), queue.add(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!(queue.take(|| true), None);
        assert_eq!((queue.take(|| false), queue.take(|| false)), (Some(1), Some(2)));
        let leaves = AtomicBool::new(false);
        thread::scope(|scope| {
            let waits = scope.spawn(|| queue.take(|| leaves.load(Ordering::SeqCst)));
            thread::sleep(Duration::from_millis(20));
            leaves.store(true, Ordering::SeqCst);
            queue.wake();
            assert_eq!(waits.join().unwrap(), None);
        });
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_worker_that_was_busy_last_takes_the_next_request() {
        let queue = Queue::new(10);
        let ends = AtomicBool::new(false);
        let (sender, taken) = mpsc::channel();
        thread::scope(|scope| {
            for worker in 0..4 {
                let (queue, ends, sender) = (&queue, &ends, sender.clone());
                scope.spawn(move || {
                    while let Some(item) = queue.take(|| ends.load(Ordering::SeqCst)) {
                        sender.send((worker, item)).unwrap();
                    }
                });
            }
            let all_are_free = || {
                while queue.waiting.lock().free.len() < 4 {
                    thread::yield_now();
                }
            };
            let workers: Vec<usize> = (0..50)
                .map(|request| {
                    all_are_free();
                    queue.add(request).unwrap();
                    let (worker, item) = taken.recv().unwrap();
                    assert_eq!(item, request);
                    worker
                })
                .collect();
            assert!(workers.iter().all(|worker| *worker == workers[0]), "{workers:?}");
            ends.store(true, Ordering::SeqCst);
            queue.wake();
        });
    }

    #[test]
    fn each_request_is_taken_once_by_threads_that_come_and_go() {
        const REQUESTS: usize = 20_000;
        let queue = Queue::new(REQUESTS);
        let leaves: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
        let (sender, taken) = mpsc::channel();
        thread::scope(|scope| {
            for leaves in &leaves {
                let (queue, sender) = (&queue, sender.clone());
                scope.spawn(move || {
                    while let Some(item) = queue.take(|| leaves.load(Ordering::SeqCst)) {
                        sender.send(item).unwrap();
                    }
                });
            }
            for request in 0..REQUESTS {
                queue.add(request).unwrap();
                if request % (REQUESTS / 4) == REQUESTS / 5 && request < REQUESTS / 2 {
                    leaves[request / (REQUESTS / 4)].store(true, Ordering::SeqCst);
                    queue.wake();
                }
            }
            let mut all: Vec<usize> = (0..REQUESTS).map(|_| taken.recv().unwrap()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..REQUESTS));
            leaves.iter().for_each(|leaves| leaves.store(true, Ordering::SeqCst));
            queue.wake();
        });
    }
}

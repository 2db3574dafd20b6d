//! A list that any thread adds to and one takes whole, without a lock.
//!
//! A fork copies a lock as it is. If another thread had it, it would stay locked in the child for ever.
//! Threads that are not attached add to these lists, so the GIL does not order them and a fork of Python's.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub(crate) struct LockFreeList<T>(AtomicPtr<Node<T>>);

struct Node<T> {
    value: T,
    below: *mut Node<T>,
}

// SAFETY: a value is owned by the thread that adds it, and then by the one that takes it.
unsafe impl<T: Send> Sync for LockFreeList<T> {}

impl<T> LockFreeList<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn push(&self, value: T) {
        let node = Box::into_raw(Box::new(Node { value, below: ptr::null_mut() }));
        let mut top = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: no other thread knows the node yet.
            unsafe { (*node).below = top };
            // Released: the thread that takes the node reads it.
            match self.0.compare_exchange_weak(top, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => top = other,
            }
        }
    }

    /// Takes all values, the oldest first.
    pub(crate) fn take(&self) -> Vec<T> {
        let mut values = Vec::new();
        let mut top = self.0.swap(ptr::null_mut(), Ordering::Acquire);
        while !top.is_null() {
            // SAFETY: `push` made the node. The exchange has left it to this thread alone.
            let node = unsafe { Box::from_raw(top) };
            values.push(node.value);
            top = node.below;
        }
        values.reverse();
        values
    }
}

#[cfg(test)]
mod tests {
    use super::LockFreeList;

    #[test]
    fn each_value_is_taken_once_and_those_of_a_thread_in_their_order() {
        let list = LockFreeList::new();
        let mut taken = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let list = &list;
                    scope.spawn(move || (0..10_000).for_each(|count| list.push((thread, count))))
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                taken.extend(list.take());
            }
        });
        taken.extend(list.take());
        for thread in 0..4 {
            let counts = taken.iter().filter(|(of, _)| *of == thread).map(|(_, count)| *count);
            assert!(counts.eq(0..10_000));
        }
    }
}

//! A queue of messages that all interpreters and the program use.

use crate::memory::KeptMemory;
use runtime::{Object, Result, Session};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A message in a channel: bytes, and memory that goes beside them without a copy.
pub(crate) struct Message {
    pub(crate) data: Vec<u8>,
    pub(crate) memory: Vec<Arc<KeptMemory>>,
}

impl Message {
    /// Memoryviews of its memory, in an interpreter.
    pub(crate) fn views<'s>(&self, session: &'s Session) -> Result<Vec<Object<'s>>> {
        self.memory.iter().map(|memory| memory.to_python(session)).collect()
    }
}

/// Messages in the order in which they were put.
///
/// Nobody waits for a GIL or runs Python while a lock here is held.
pub(crate) struct Channel {
    /// The most messages that it holds.
    capacity: Option<usize>,
    state: Mutex<Messages>,
    has_message: Condvar,
    has_room: Condvar,
}

struct Messages {
    messages: VecDeque<Message>,
    /// Places for messages that are about to be put.
    reserved: usize,
}

impl Channel {
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        let state = Mutex::new(Messages { messages: VecDeque::new(), reserved: 0 });
        Self { capacity, state, has_message: Condvar::new(), has_room: Condvar::new() }
    }

    pub(crate) fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(crate) fn len(&self) -> usize {
        self.state().messages.len()
    }

    /// A place for a message. Waits for one at most for so long.
    pub(crate) fn reserve(&self, limit: Duration) -> Option<Reservation<'_>> {
        let is_full = |state: &mut Messages| {
            self.capacity.is_some_and(|most| state.messages.len() + state.reserved >= most)
        };
        let mut state = waited(&self.has_room, self.state(), limit, is_full);
        if is_full(&mut state) {
            return None;
        }
        state.reserved += 1;
        Some(Reservation(self))
    }

    /// The first message. Waits for one at most for so long.
    pub(crate) fn get(&self, limit: Duration) -> Option<Message> {
        let is_empty = |state: &mut Messages| state.messages.is_empty();
        let mut state = waited(&self.has_message, self.state(), limit, is_empty);
        let message = state.messages.pop_front()?;
        drop(state);
        self.has_room.notify_one();
        Some(message)
    }

    /// Puts a message that was taken in vain in front of the others.
    pub(crate) fn put_back(&self, message: Message) {
        self.state().messages.push_front(message);
        self.has_message.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, Messages> {
        // Each change is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state when the condition has ended, or the time.
fn waited<'a>(
    change: &Condvar,
    state: MutexGuard<'a, Messages>,
    limit: Duration,
    condition: impl FnMut(&mut Messages) -> bool,
) -> MutexGuard<'a, Messages> {
    change.wait_timeout_while(state, limit, condition).unwrap_or_else(PoisonError::into_inner).0
}

/// A place for a message. It is free again when this is dropped.
pub(crate) struct Reservation<'a>(&'a Channel);

impl Reservation<'_> {
    pub(crate) fn put(self, message: Message) {
        self.0.state().messages.push_back(message);
        self.0.has_message.notify_one();
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.reserved -= 1;
        drop(state);
        self.0.has_room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, Message};
    use crate::memory::{KeptMemory, hz_memory};
    use std::ffi::c_void;
    use std::ptr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(60);

    fn message(number: u8) -> Message {
        Message { data: vec![number], memory: Vec::new() }
    }

    #[test]
    fn messages_come_in_the_order_in_which_they_were_put_and_no_more_than_there_is_room_for() {
        let channel = Channel::new(Some(2));
        assert!(channel.get(NOW).is_none());
        let first = channel.reserve(NOW).unwrap();
        channel.reserve(NOW).unwrap().put(message(2));
        assert!(channel.reserve(NOW).is_none());
        drop(first);
        channel.reserve(NOW).unwrap().put(message(3));
        assert_eq!(channel.len(), 2);
        let got: Vec<_> = std::iter::from_fn(|| channel.get(NOW)).map(|got| got.data).collect();
        assert_eq!(got, [[2], [3]]);
    }

    #[test]
    fn those_who_wait_get_what_others_put_and_room_that_others_make() {
        let channel = Channel::new(Some(1));
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..200 {
                    channel.reserve(LONG).unwrap().put(message(number));
                }
            });
            for number in 0..200 {
                assert_eq!(channel.get(LONG).unwrap().data, [number]);
            }
        });
    }

    #[test]
    fn a_channel_that_ends_gives_its_memory_back() {
        static RELEASED: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn release(_: *mut c_void) {
            RELEASED.fetch_add(1, Ordering::Relaxed);
        }
        let channel = Channel::new(None);
        let (data, context) = (ptr::null_mut(), ptr::null_mut());
        let memory = hz_memory { data, len: 0, read_only: true, release: Some(release), context };
        // SAFETY: it is empty.
        let memory = unsafe { KeptMemory::lent(&memory) };
        let memory = vec![Arc::new(memory)];
        channel.reserve(NOW).unwrap().put(Message { data: Vec::new(), memory });
        drop(channel);
        assert_eq!(RELEASED.load(Ordering::Relaxed), 1);
    }
}

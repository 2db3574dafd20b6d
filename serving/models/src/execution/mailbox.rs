//! The waits of models in Rust. Another thread can end them.

use crate::execution::Execution;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// A queue of messages, in order of arrival.
pub(crate) struct Mailbox<T> {
    state: Mutex<MailboxState<T>>,
    changed: Condvar,
}

struct MailboxState<T> {
    came: VecDeque<T>,
    /// Nothing more comes.
    is_over: bool,
    /// No thread may wait any more.
    is_given_up: bool,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<T> {
    /// A message arrived.
    Some(T),
    /// Nothing more comes.
    Over,
    /// The execution that waits is beyond its limit.
    Late,
    /// Somebody has given up the wait ([`Mailbox::give_up`]).
    GivenUp,
}

/// The sending end. Once it is dropped, nothing more arrives.
pub(crate) struct Post<T>(Arc<Mailbox<T>>);

impl<T> Post<T> {
    pub(crate) fn send(&self, thing: T) {
        self.0.put(thing);
    }
}

impl<T> Drop for Post<T> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

/// A wait, for an execution to end it.
pub(crate) trait Wake: Send + Sync {
    /// Makes the waiting thread look again.
    fn wake(&self);
}

impl<T: Send> Wake for Mailbox<T> {
    fn wake(&self) {
        // A thread between its look and its wait holds the lock.
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

impl<T: Send + 'static> Mailbox<T> {
    pub(crate) fn new() -> (Post<T>, Arc<Self>) {
        let state = MailboxState { came: VecDeque::new(), is_over: false, is_given_up: false };
        let mail = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        (Post(mail.clone()), mail)
    }

    /// Ends all waits for it, now and later.
    pub(crate) fn give_up(&self) {
        self.state.lock().is_given_up = true;
        self.changed.notify_all();
    }

    /// Waits for the next thing. The caller has no GIL. The end of the calling thread's execution ends the wait.
    pub(crate) fn next(self: &Arc<Self>) -> Taken<T> {
        let execution = Execution::current();
        if let Some(execution) = &execution {
            let wake: Arc<dyn Wake> = self.clone();
            execution.waits(&wake);
        }
        let mut state = self.state.lock();
        loop {
            if let Some(thing) = state.came.pop_front() {
                return Taken::Some(thing);
            } else if state.is_over {
                return Taken::Over;
            } else if state.is_given_up {
                return Taken::GivenUp;
            } else if execution.as_ref().is_some_and(|execution| execution.is_late()) {
                return Taken::Late;
            }
            self.changed.wait(&mut state);
        }
    }
}

impl<T> Mailbox<T> {
    /// Adds a thing, also when nothing more comes otherwise.
    pub(crate) fn put(&self, thing: T) {
        self.state.lock().came.push_back(thing);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{Mailbox, Taken};
    use std::thread;

    #[test]
    fn things_come_in_their_order_until_nothing_more_comes() {
        let (post, mail) = Mailbox::new();
        post.send(1);
        post.send(2);
        drop(post);
        mail.put(3);
        let taken: Vec<_> = (0..4).map(|_| mail.next()).collect();
        assert_eq!(taken, [Taken::Some(1), Taken::Some(2), Taken::Some(3), Taken::Over]);
    }

    #[test]
    fn a_wait_is_given_up_by_others() {
        let (post, mail) = Mailbox::<()>::new();
        let waits = mail.clone();
        let waiter = thread::spawn(move || waits.next());
        mail.give_up();
        assert_eq!(waiter.join().unwrap(), Taken::GivenUp);
        assert_eq!(mail.next(), Taken::GivenUp);
        drop(post);
    }
}

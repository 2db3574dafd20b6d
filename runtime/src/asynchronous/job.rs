//! A coroutine on its way through an event loop.

use super::task::Sender;
use crate::object::Object;
use crate::panics::contained;
use crate::session::Session;
use crate::{Error, Result};

/// Work for an event loop. If it is dropped, its future says that the interpreter has ended.
pub(super) trait Job: Send {
    /// The object that the loop shall await. `None` if nobody wants the result any more, or after an error, which the
    /// future then returns.
    fn make<'s>(&mut self, session: &'s Session) -> Option<Object<'s>>;

    /// Gives the result of the asyncio task to the future.
    fn done(self: Box<Self>, task: Object<'_>);

    /// Gives an error to the future.
    fn fail(self: Box<Self>, error: Error);
}

/// The work of one [`Task`](super::Task).
pub(super) struct Work<T, M, X> {
    make: Option<M>,
    take: X,
    sender: Sender<T>,
}

impl<T, M, X> Work<T, M, X> {
    pub(super) fn new(make: M, take: X, sender: Sender<T>) -> Self {
        Self { make: Some(make), take, sender }
    }
}

impl<T, M, X> Job for Work<T, M, X>
where
    T: Send,
    M: for<'s> FnOnce(&'s Session) -> Result<Object<'s>> + Send,
    X: for<'s> FnOnce(Object<'s>) -> Result<T> + Send,
{
    fn make<'s>(&mut self, session: &'s Session) -> Option<Object<'s>> {
        let make = self.make.take()?;
        if !self.sender.is_wanted() {
            return None;
        }
        match caught("the function that makes a coroutine", || make(session)) {
            Ok(awaitable) => Some(awaitable),
            Err(error) => {
                self.sender.send(Err(error));
                None
            }
        }
    }

    fn done(mut self: Box<Self>, task: Object<'_>) {
        // Otherwise asyncio reports an exception that nobody has taken.
        if self.sender.is_wanted() {
            let take = self.take;
            let result = caught("the function that takes a coroutine's result", || {
                take(task.call_method("result", ())?)
            });
            self.sender.send(result);
        }
    }

    fn fail(mut self: Box<Self>, error: Error) {
        self.sender.send(Err(error));
    }
}

/// Calls `action`. A panic is an error.
pub(super) fn caught<R>(what: &str, action: impl FnOnce() -> Result<R>) -> Result<R> {
    contained(action).unwrap_or_else(|text| Err(Error::Panic(format!("{what} panicked: {text}"))))
}

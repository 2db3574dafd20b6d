//! References that do not keep a pool alive.

use super::{Pool, State};
use std::fmt;
use std::sync::{Arc, Weak};

/// A reference to a [`Pool`] that does not keep it alive: for what the pool's own interpreters own.
///
/// A host function that owns a `Pool` keeps the interpreter alive that owns the function, so neither ends
/// ([`Session::function`](crate::Session::function)). With a `WeakPool` the pool ends when the application drops it.
///
/// ```no_run
/// # fn f(pool: &hydrozoa::Pool, session: &hydrozoa::Session) -> hydrozoa::Result<()> {
/// let weak = pool.downgrade();
/// let elsewhere = session.function("elsewhere", move |session, arguments| {
///     let Some(pool) = weak.upgrade() else { return session.none() };
///     let text: String = pool.acquire()?.eval(&arguments.extract::<String>(0)?)?.extract()?;
///     session.object_from(&text)
/// })?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct WeakPool(Weak<State>);

impl WeakPool {
    /// The pool, unless its last handle is dropped. Inside an interpreter of the pool it may be: a session keeps its
    /// interpreter, not the pool.
    ///
    /// The result is a handle as others are. If everybody else drops theirs meanwhile, the drop of the result ends the
    /// pool's interpreters.
    pub fn upgrade(&self) -> Option<Pool> {
        self.0.upgrade().map(Pool)
    }
}

impl Pool {
    /// A reference to this pool that does not keep it alive.
    pub fn downgrade(&self) -> WeakPool {
        WeakPool(Arc::downgrade(&self.0))
    }
}

impl fmt::Debug for WeakPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("WeakPool").finish_non_exhaustive()
    }
}

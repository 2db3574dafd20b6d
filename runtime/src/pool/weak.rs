//! References that do not keep a pool alive.

use super::{Pool, PoolState};
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
pub struct WeakPool(Weak<PoolState>);

impl WeakPool {
    /// The pool, unless its last handle has been dropped. That can happen even while an interpreter of the pool runs this: a
    /// session keeps its interpreter, not the pool.
    ///
    /// The result is an ordinary handle. If all other handles are dropped meanwhile, dropping the result ends the
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

//! Which interpreter of a pool a session is on, and who waits for one.

use super::Pool;
use crate::interpreter::{Interpreter, without_gil};
use crate::session::Session;
use crate::{Error, Result};
use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// Index of the interpreter that this thread leased last, in any pool.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

impl Pool {
    /// Leases the least loaded interpreter. Never waits: if all interpreters are leased, the one with the
    /// fewest sessions gets another, and the calls of its sessions take turns by its GIL. An interpreter with a stuck call
    /// ([`Interpreter::is_stuck`]) comes last.
    ///
    /// # Errors
    ///
    /// None today; a bounded pool will have some.
    pub fn acquire(&self) -> Result<Session> {
        self.lease(None)
    }

    /// Leases an interpreter that has no session, if there is one and nobody waits for it in
    /// [`Pool::acquire_timeout`]. Never waits. Interpreters with a stuck call do not count.
    ///
    /// The session is alone on its interpreter as long as nobody else leases without a look at sessions
    /// ([`Pool::acquire`], [`Pool::acquire_on`], a call on a [`Movable`](crate::Movable)). Then its calls wait for no other
    /// session's.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`].
    pub fn try_acquire(&self) -> Result<Session> {
        self.acquire_timeout(Duration::ZERO)
    }

    /// As [`Pool::try_acquire`], but waits for at most `limit` until an interpreter has no session. Threads that wait are
    /// served in the order in which they came. They wait without a GIL.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn f(pool: &hydrozoa::Pool) -> hydrozoa::Result<()> {
    /// match pool.acquire_timeout(Duration::from_millis(50)) {
    ///     Ok(session) => println!("{:?}", session.import("model")?.call_method("predict", (3.0,))?),
    ///     Err(hydrozoa::Error::Busy { .. }) => eprintln!("503 Service Unavailable"),
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Busy`].
    pub fn acquire_timeout(&self, limit: Duration) -> Result<Session> {
        let queue = &self.0.queue;
        if queue.is_empty()
            && let Some(session) = self.lease_idle()
        {
            return Ok(session);
        }
        let begin = Instant::now();
        // Too far away for the clock is never.
        let end = begin.checked_add(limit);
        let is_late = || end.is_some_and(|end| Instant::now() >= end);
        if !is_late() {
            let place = queue.join();
            loop {
                // Read before the look at interpreters: who becomes idle after that look wakes this thread.
                let is_late = is_late();
                if place.is_first()
                    && let Some(session) = self.lease_idle()
                {
                    return Ok(session);
                }
                if is_late {
                    break;
                }
                without_gil(|| place.wait(end));
            }
        }
        Err(Error::Busy { interpreters: self.interpreters().len(), waited: begin.elapsed() })
    }

    /// Leases an interpreter without sessions, if there is one: if possible, that which this thread had last.
    fn lease_idle(&self) -> Option<Session> {
        let members = self.0.interpreters.load();
        let last = members.get(LAST.get());
        let session = last.into_iter().chain(members.iter()).find_map(|interpreter| {
            let is_idle = interpreter.leases() == 0 && !interpreter.is_stuck();
            is_idle.then(|| interpreter.session_if(0)).flatten()
        })?;
        LAST.set(session.interpreter().index());
        Some(session)
    }

    /// As [`Pool::acquire`], with a preference between equally loaded interpreters: first one that
    /// `preferred` accepts (for example because it already holds a model), then the one that this thread
    /// had last.
    ///
    /// # Errors
    ///
    /// As [`Pool::acquire`].
    pub fn acquire_preferring(&self, preferred: impl Fn(&Interpreter) -> bool) -> Result<Session> {
        self.lease(Some(&preferred))
    }

    fn lease(&self, preferred: Option<&dyn Fn(&Interpreter) -> bool>) -> Result<Session> {
        let last = LAST.get();
        // However many interpreters there are: none is loaded less than one without a session, and
        // of those that one comes first which is preferred and was had last.
        let members = self.0.interpreters.load();
        if let Some(interpreter) = members.get(last)
            && interpreter.leases() == 0
            && !interpreter.is_stuck()
            && preferred.is_none_or(|preferred| preferred(interpreter))
            && let Some(session) = interpreter.session_if(0)
        {
            return Ok(session);
        }
        loop {
            // They may have been replaced meanwhile.
            let members = self.0.interpreters.load();
            let load = |interpreter: &Interpreter| (interpreter.is_stuck(), interpreter.leases());
            let least = members.iter().map(load).min();
            let least = least.expect("a pool has at least one interpreter");
            let chosen = members
                .iter()
                .filter(|interpreter| load(interpreter) == least)
                .min_by_key(|interpreter| {
                    let unknown = preferred.is_some_and(|preferred| !preferred(interpreter));
                    (unknown, interpreter.index() != last)
                });
            // Another thread may have taken the same one meanwhile: look again.
            if let Some(interpreter) = chosen
                && let Some(session) = interpreter.session_if(least.1)
            {
                LAST.set(interpreter.index());
                return Ok(session);
            }
        }
    }

    /// Leases the interpreter at `index`, from 0.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchInterpreter`].
    pub fn acquire_on(&self, index: usize) -> Result<Session> {
        let members = self.0.interpreters.load();
        let count = members.len();
        let interpreter = members.get(index).ok_or(Error::NoSuchInterpreter { index, count })?;
        Ok(interpreter.session())
    }
}

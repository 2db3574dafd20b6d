//! How a session gets an interpreter of a pool, or waits for one.

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

/// A preference for some interpreters, if there is a choice.
type Preference<'a> = &'a dyn Fn(&Interpreter) -> bool;

impl Pool {
    /// Leases the least loaded interpreter. An interpreter with a stuck call ([`Interpreter::is_stuck`]) comes last.
    ///
    /// Without [`Builder::max_sessions`](crate::Builder::max_sessions) it never waits: if all interpreters are leased, the
    /// one with the fewest sessions gets another, and the calls of its sessions take turns by its GIL. With that limit it
    /// waits, without a time limit, until an interpreter has fewer sessions; see [`Pool::acquire_timeout`].
    ///
    /// # Errors
    ///
    /// None in practice. The signature is that of all leases.
    pub fn acquire(&self) -> Result<Session> {
        self.lease_or_wait(None)
    }

    /// As [`Pool::acquire_timeout`], but never waits.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`].
    pub fn try_acquire(&self) -> Result<Session> {
        self.acquire_timeout(Duration::ZERO)
    }

    /// Leases the least loaded interpreter that has fewer sessions than
    /// [`Builder::max_sessions`](crate::Builder::max_sessions) allows, or no session if that is not set. Waits for at most
    /// `limit` until there is one. Waiting threads are served in order of arrival, and hold no GIL.
    /// Interpreters with a stuck call do not count.
    ///
    /// Leases of one interpreter ([`Pool::acquire_on`], [`Interpreter::session`]) ignore the number of other sessions, but
    /// count towards it, and so does the session that a host function gets. In a pool without
    /// `max_sessions` this holds for [`Pool::acquire`] and calls on a [`Movable`](crate::Movable) too. If the
    /// application uses none of these, a session of a pool without `max_sessions` is alone on its interpreter, and its
    /// calls never wait for another session's.
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
        self.wait(None, limit)
    }

    /// As [`Pool::acquire`], with a preference between equally loaded interpreters: first one that
    /// `preferred` accepts (for example because it already holds a model), then the one that this thread
    /// leased last.
    ///
    /// # Errors
    ///
    /// As [`Pool::acquire`].
    pub fn acquire_preferring(&self, preferred: impl Fn(&Interpreter) -> bool) -> Result<Session> {
        self.lease_or_wait(Some(&preferred))
    }

    fn lease_or_wait(&self, preferred: Option<Preference<'_>>) -> Result<Session> {
        if self.0.queue.is_bounded() {
            return self.wait(preferred, Duration::MAX);
        }
        let session = self.lease(preferred, None);
        Ok(session.expect("a pool has at least one interpreter"))
    }

    /// Leases an interpreter with fewer sessions than the bound, at the latest after `limit`.
    fn wait(&self, preferred: Option<Preference<'_>>, limit: Duration) -> Result<Session> {
        let queue = &self.0.queue;
        let bound = queue.bound();
        if queue.is_empty()
            && let Some(session) = self.lease(preferred, Some(bound))
        {
            return Ok(session);
        }
        let begin = Instant::now();
        // A time too far away for the clock never comes.
        let end = begin.checked_add(limit);
        let is_late = || end.is_some_and(|end| Instant::now() >= end);
        if !is_late() {
            let place = queue.join();
            loop {
                // Read before looking at the interpreters: a session that ends after that look wakes this thread.
                let is_late = is_late();
                if place.is_first()
                    && let Some(session) = self.lease(preferred, Some(bound))
                {
                    return Ok(session);
                }
                if is_late {
                    break;
                }
                without_gil(|| place.wait(end));
            }
        }
        let (interpreters, waited) = (self.interpreters().len(), begin.elapsed());
        Err(Error::Busy { interpreters, sessions: bound, waited })
    }

    /// Leases the least loaded interpreter; with a bound only one with fewer sessions, whose calls are not stuck.
    fn lease(&self, preferred: Option<Preference<'_>>, bound: Option<usize>) -> Option<Session> {
        let last = LAST.get();
        // However many interpreters there are: no load is below one without a session, and
        // among those the preferred one that was leased last comes first.
        let members = self.0.interpreters.load();
        if let Some(interpreter) = members.get(last)
            && interpreter.leases() == 0
            && !interpreter.is_stuck()
            && !interpreter.has_crashed()
            && preferred.is_none_or(|preferred| preferred(interpreter))
            && let Some(session) = interpreter.session_if(0)
        {
            return Some(session);
        }
        loop {
            // They may have been replaced meanwhile.
            let members = self.0.interpreters.load();
            let is_out =
                |interpreter: &Interpreter| interpreter.is_stuck() || interpreter.has_crashed();
            let load = |interpreter: &Interpreter| (is_out(interpreter), interpreter.leases());
            let least = members.iter().map(load).min()?;
            let (is_out, sessions) = least;
            if bound.is_some_and(|bound| is_out || sessions >= bound) {
                return None;
            }
            let chosen = members
                .iter()
                .filter(|interpreter| load(interpreter) == least)
                .min_by_key(|interpreter| {
                    let unknown = preferred.is_some_and(|preferred| !preferred(interpreter));
                    (unknown, interpreter.index() != last)
                });
            // Another thread may have taken the same one meanwhile: look again.
            if let Some(interpreter) = chosen
                && let Some(session) = interpreter.session_if(sessions)
            {
                LAST.set(interpreter.index());
                return Some(session);
            }
        }
    }

    /// Leases the interpreter at `index`, from 0. Never waits, and ignores
    /// [`Builder::max_sessions`](crate::Builder::max_sessions).
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

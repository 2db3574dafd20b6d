//! Ends of interpreters for which a caller waits, with a limit.

use super::{Inner, Interpreter};
use crate::thread::Thread;
use crate::{Error, Result};
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Whether an interpreter has ended.
#[derive(Debug, Default)]
pub(super) struct End {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

/// Says so when it is dropped.
pub(super) struct Ending(Arc<End>);

/// The interpreters of the process that have not ended, those that start included.
static UNENDED: Mutex<usize> = Mutex::new(0);

/// One has ended.
static ENDED: Condvar = Condvar::new();

impl Ending {
    pub(super) fn new(end: Arc<End>) -> Self {
        *UNENDED.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(end)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        *self.0.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
        *UNENDED.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_all();
    }
}

/// Between two looks at those that are stuck.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until all interpreters of the process have ended, except for those that are stuck
/// ([`Interpreter::is_stuck`]), and at most for `within`. Returns how many have not ended, the stuck ones included.
///
/// It ends none: the program gives its pools and sessions up before ([`Pool::close`](crate::Pool::close)). It is for a program that
/// ends, and whose interpreters several of its parts have: `exit(3)` destroys what libraries have while an interpreter that is
/// being finalized still uses it. If some are left, [`exit_at_once`](crate::exit_at_once) ends the process.
pub fn wait_for_ends(within: Duration) -> usize {
    let deadline = Instant::now().checked_add(within);
    loop {
        let unended = UNENDED.lock().unwrap_or_else(PoisonError::into_inner);
        if *unended == 0 {
            return 0;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let pause = left.unwrap_or(LOOK).min(LOOK);
        let waited = ENDED.wait_timeout(unended, pause).unwrap_or_else(PoisonError::into_inner);
        let unended = *waited.0;
        drop(waited);
        if unended <= stuck() || left.is_some_and(|left| left.is_zero()) {
            return unended;
        }
    }
}

/// How many are stuck.
fn stuck() -> usize {
    let release = |interpreter: Interpreter| {
        let is_stuck = interpreter.is_stuck();
        // The others may have given it up meanwhile. Its end is waited for elsewhere.
        if Arc::strong_count(&interpreter.0) == 1 {
            drop(GivenUp::new(interpreter, None));
        }
        is_stuck
    };
    Interpreter::all().into_iter().map(release).filter(|is_stuck| *is_stuck).count()
}

impl End {
    /// Waits until it has ended, or until `deadline`, if there is one. True if it has.
    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let guard = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(deadline) = deadline else {
            let ended = self.changed.wait_while(guard, |ended| !*ended);
            return *ended.unwrap_or_else(PoisonError::into_inner);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(guard, left, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Interpreter {
    /// Ends the interpreter: gives this handle up, and waits until the interpreter is finalized and has given back what it
    /// had, at most for `within`.
    ///
    /// The interpreter ends when nothing else refers to it: no handle, no [`Session`](crate::Session), no
    /// [`Tensor`](crate::Tensor) or [`Buffer`](crate::Buffer) taken from it. A pool holds handles of its own; an interpreter
    /// leaves it by [`Pool::replace`](crate::Pool::replace) or [`Pool::resize`](crate::Pool::resize).
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] if it has not ended in time. It still ends when the others have given it up.
    /// [`Error::Start`] if the system refuses the thread that would wait for the end.
    pub fn close(self, within: Duration) -> Result<()> {
        close_all(vec![self], within)
    }
}

/// Gives handles up, one beside the other, and waits at most for `within` until their interpreters have ended. Settled ones take turns.
pub(crate) fn close_all(interpreters: Vec<Interpreter>, within: Duration) -> Result<()> {
    // Too far away for the clock is never.
    let deadline = Instant::now().checked_add(within);
    let turns = Turns::new();
    let give_up = |interpreter: Interpreter| {
        let is_settled = interpreter.0.settling().so_far().times > 0;
        GivenUp::new(interpreter, is_settled.then(|| turns.clone()))
    };
    let given_up: Vec<_> = interpreters.into_iter().map(give_up).collect();
    let mut outcome = Ok(());
    for given_up in given_up {
        let ended = given_up.and_then(|given_up| given_up.wait_until(deadline, within));
        outcome = outcome.and(ended);
    }
    outcome
}

/// As many ends at once as the machine has processors. The end of a settled interpreter brings most of its memory back, as Python visits every object: where many
/// end at once, a machine that has had room for them settled has none for that.
#[derive(Debug)]
struct Turns {
    most: usize,
    state: Mutex<TurnState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TurnState {
    running: usize,
    /// Turns that have ended, and those that were not waited for.
    passed: u64,
}

/// One end, until it is dropped.
struct Turn<'a>(&'a Turns);

impl Turns {
    /// An end that takes longer may wait for others, whose own ends wait for it.
    const PATIENCE: Duration = Duration::from_secs(2);

    fn new() -> Arc<Self> {
        let most = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Arc::new(Self { most, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Waits for a turn, as long as others end.
    fn take(&self) -> Turn<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.running >= self.most {
            let passed = state.passed;
            let is_full =
                |state: &mut TurnState| state.running >= self.most && state.passed == passed;
            let waited = self.changed.wait_timeout_while(state, Self::PATIENCE, is_full);
            let (now, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = now;
            if waited.timed_out() {
                // Of those that wait, one goes on.
                state.passed += 1;
                break;
            }
        }
        state.running += 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running -= 1;
        state.passed += 1;
        self.0.changed.notify_all();
    }
}

/// An interpreter of which a handle was dropped, on another thread: the drop waits for the end without a limit.
struct GivenUp {
    name: String,
    interpreter: std::sync::Weak<Inner>,
    end: Arc<End>,
}

impl GivenUp {
    fn new(interpreter: Interpreter, turns: Option<Arc<Turns>>) -> Result<Self> {
        let name = interpreter.name().to_owned();
        let end = interpreter.0.end.clone();
        let weak = Arc::downgrade(&interpreter.0);
        let drop = move || {
            let _turn = turns.as_ref().map(|turns| turns.take());
            drop(interpreter);
        };
        Thread::start("close", drop).map_err(|error| Error::no_thread(&name, &error))?.detach();
        Ok(Self { name, interpreter: weak, end })
    }

    fn wait_until(self, deadline: Option<Instant>, within: Duration) -> Result<()> {
        if self.end.wait_until(deadline) {
            return Ok(());
        }
        let mut sessions = 0;
        if let Some(inner) = self.interpreter.upgrade() {
            sessions = inner.leases.count();
            // It may be the last one by now.
            drop(GivenUp::new(Interpreter(inner), None));
        }
        Err(Error::InUse { interpreter: self.name, sessions, waited: within })
    }
}

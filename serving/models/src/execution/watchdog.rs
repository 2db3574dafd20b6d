//! The clock of executions: one thread of the process, which knows when limits pass and which execution does not react.

use crate::execution::Execution;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use std::{io, thread};

/// How long after the limit a coroutine may take to reach its next `await`, where it is cancelled.
const TURN: Duration = Duration::from_millis(50);

/// How long after the limit no execution counts as stuck, whatever the runtime says. Bytecode on a busy machine may react late.
const GRACE: Duration = Duration::from_millis(180);

/// How long after the limit a coroutine may go on: the runtime knows nothing of the loop's thread.
const PATIENCE: Duration = Duration::from_millis(700);

/// The same for a call that the runtime does not call stuck. It does so within a second, however busy the machine is.
const LONGEST: Duration = Duration::from_millis(1500);

/// Between two looks at one that may be stuck.
const LOOK: Duration = Duration::from_millis(20);

static WATCHED: LazyLock<Watched> = LazyLock::new(Watched::default);

#[derive(Default)]
struct Watched {
    state: Mutex<Watchlist>,
    changed: Condvar,
}

#[derive(Default)]
struct Watchlist {
    executions: Vec<WatchedExecution>,
    /// When the thread looks next; `None` for when it is told to.
    wakes: Option<Instant>,
    has_thread: bool,
}

struct WatchedExecution {
    execution: Arc<Execution>,
    next: Instant,
    step: Step,
}

/// The next step.
#[derive(Clone, Copy)]
enum Step {
    /// The limit passes.
    Pass,
    /// The loop is interrupted.
    Interrupt,
    /// An execution that still runs is given up if it is stuck.
    Look,
}

/// Starts the clock, if it does not run. Call this before any execution under a limit.
pub(crate) fn start() -> io::Result<()> {
    let mut state = WATCHED.state.lock();
    if !state.has_thread {
        thread::Builder::new().name("executions".to_owned()).spawn(|| WATCHED.run())?;
        state.has_thread = true;
    }
    Ok(())
}

/// Watches an execution until it is removed or given up.
pub(crate) fn add(execution: &Arc<Execution>) {
    let watched =
        WatchedExecution { execution: execution.clone(), next: execution.end, step: Step::Pass };
    let mut state = WATCHED.state.lock();
    state.executions.push(watched);
    // Limits differ seldom, so the thread is seldom woken for a later one.
    if state.wakes.is_none_or(|wakes| execution.end < wakes) {
        WATCHED.changed.notify_one();
    }
}

/// Watches it no longer.
pub(crate) fn remove(execution: &Execution) {
    let removed = {
        let mut state = WATCHED.state.lock();
        let is_it =
            |watched: &WatchedExecution| std::ptr::eq(Arc::as_ptr(&watched.execution), execution);
        let place = state.executions.iter().position(is_it);
        place.map(|place| state.executions.swap_remove(place))
    };
    drop(removed);
}

impl Watched {
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let due = state.due(now);
            if !due.is_empty() {
                MutexGuard::unlocked(&mut state, || {
                    for (execution, step) in due {
                        act(&execution, step, now);
                    }
                });
                continue;
            }
            state.wakes = state.executions.iter().map(|watched| watched.next).min();
            match state.wakes {
                Some(until) => drop(self.changed.wait_until(&mut state, until)),
                None => self.changed.wait(&mut state),
            }
        }
    }
}

impl Watchlist {
    /// Those for whom something is to be done now, and what. Each is put off to its next step.
    fn due(&mut self, now: Instant) -> Vec<(Arc<Execution>, Step)> {
        let mut due = Vec::new();
        for watched in self.executions.iter_mut().filter(|watched| watched.next <= now) {
            due.push((watched.execution.clone(), watched.step));
            (watched.step, watched.next) = match watched.step {
                Step::Pass => (Step::Interrupt, now + TURN),
                Step::Interrupt => (Step::Look, (watched.execution.end + GRACE).max(now + LOOK)),
                Step::Look => (Step::Look, now + LOOK),
            };
        }
        due
    }
}

fn act(execution: &Arc<Execution>, step: Step, now: Instant) {
    match step {
        Step::Pass => execution.pass(),
        Step::Interrupt => execution.interrupt(),
        Step::Look => {
            // A thread that waits for the loop's thread tells nothing: the loop is interrupted separately.
            let is_stuck = match execution.is_in_loop() {
                true => now >= execution.end + PATIENCE,
                false => now >= execution.end + LONGEST || execution.is_stuck(),
            };
            if is_stuck {
                // It is in the list for as long as it runs: it is removed when it ends, or here.
                remove(execution);
                execution.give_up();
            }
        }
    }
}

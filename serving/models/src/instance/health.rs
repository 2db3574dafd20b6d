//! How the instances of a model are.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// The instances of a model, by their index.
pub(crate) struct Health {
    state: Mutex<Conditions>,
    changed: Condvar,
}

struct Conditions {
    seats: Vec<Condition>,
    /// Interpreters that were given up, and whose threads have not come back.
    given_up: usize,
    replaced: u64,
    is_closed: bool,
}

/// How an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It is started for the first time.
    Starting,
    /// It takes requests.
    Serving,
    /// It was given up, and another one is started in its place.
    Replaced(String),
    /// The other one could not be started, or the instance has crashed too often. It is tried again, or given up.
    Failed(String),
    /// It takes no further requests.
    Ended,
}

/// Interpreters of a model that were given up and have not ended, at most. Each keeps its memory and a thread. A further
/// instance is replaced when one of them has ended.
const GIVEN_UP: usize = 8;

impl Health {
    pub(crate) fn new(instances: usize) -> Self {
        let seats = vec![Condition::Starting; instances];
        let state = Conditions { seats, given_up: 0, replaced: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn set(&self, instance: usize, condition: Condition) {
        let mut state = self.state.lock();
        if state.seats[instance] != Condition::Ended {
            state.seats[instance] = condition;
        }
        self.changed.notify_all();
    }

    /// An instance is given up, and its thread goes on.
    pub(crate) fn give_up(&self, instance: usize, why: String) {
        self.state.lock().given_up += 1;
        self.set(instance, Condition::Replaced(why));
    }

    /// The thread of an instance that was given up has come back.
    pub(crate) fn came_back(&self) {
        self.state.lock().given_up -= 1;
        self.changed.notify_all();
    }

    /// Another instance serves in the place of one.
    pub(crate) fn replaced(&self, instance: usize) {
        self.state.lock().replaced += 1;
        self.set(instance, Condition::Serving);
    }

    /// Whether an instance was given up, and another one is to come.
    pub(crate) fn is_replaced(&self, instance: usize) -> bool {
        matches!(self.state.lock().seats[instance], Condition::Replaced(_))
    }

    /// How many instances were replaced.
    pub(crate) fn replacements(&self) -> u64 {
        self.state.lock().replaced
    }

    /// The problem with an instance. `None` if all are well.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.state.lock();
        state.seats.iter().find_map(|seat| match seat {
            Condition::Replaced(why) | Condition::Failed(why) => Some(why.clone()),
            _ => None,
        })
    }

    /// Why no instance serves or will soon. `None` if one does.
    pub(crate) fn refusal(&self) -> Option<String> {
        let state = self.state.lock();
        let failed = |seat: &Condition| match seat {
            Condition::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let all: Option<Vec<_>> = state.seats.iter().map(failed).collect();
        all?.into_iter().next()
    }

    /// Ends the waits for another attempt.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until the model takes no further requests.
    pub(crate) fn wait_for_close(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.is_closed);
    }

    /// Waits until another interpreter may be started in the place of one that was given up. False if none shall be.
    pub(crate) fn may_replace(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        let closed = |state: &mut Conditions| !state.is_closed;
        if !pause.is_zero() {
            self.changed.wait_while_for(&mut state, closed, pause);
        }
        self.changed.wait_while(&mut state, |state| !state.is_closed && state.given_up >= GIVEN_UP);
        !state.is_closed
    }

    /// Waits until all instances have ended.
    pub(crate) fn wait_for_end(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| {
            state.seats.iter().any(|seat| *seat != Condition::Ended)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Condition, GIVEN_UP, Health};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn one_that_does_not_serve_is_a_problem_and_all_are_a_refusal() {
        let health = Health::new(2);
        assert_eq!((health.problem(), health.refusal()), (None, None));
        health.set(0, Condition::Serving);
        health.set(1, Condition::Failed("why".to_owned()));
        assert_eq!((health.problem(), health.refusal()), (Some("why".to_owned()), None));
        health.give_up(0, "stuck".to_owned());
        assert_eq!((health.problem(), health.refusal()), (Some("stuck".to_owned()), None));
        health.set(0, Condition::Failed("again".to_owned()));
        assert_eq!(health.refusal(), Some("again".to_owned()));
        health.replaced(0);
        health.replaced(1);
        assert_eq!((health.problem(), health.refusal(), health.replacements()), (None, None, 2));
    }

    #[test]
    fn so_many_are_given_up_and_no_more() {
        let health = Arc::new(Health::new(1));
        for count in 1..=GIVEN_UP {
            assert!(health.may_replace(Duration::ZERO), "{count}");
            health.give_up(0, "stuck".to_owned());
        }
        let other = health.clone();
        let waits = thread::spawn(move || other.may_replace(Duration::ZERO));
        health.came_back();
        assert!(waits.join().unwrap());
        health.give_up(0, "stuck".to_owned());
        let other = health.clone();
        let waits = thread::spawn(move || other.may_replace(Duration::ZERO));
        health.close();
        assert!(!waits.join().unwrap());
        health.set(0, Condition::Ended);
        health.wait_for_end();
    }
}

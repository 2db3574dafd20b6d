//! An instance's own answer on whether it is ready.

use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::execution::STACK;

/// How long a model is waited for when it is asked. Triton's Python backend waits as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// An instance that may be asked. One question is under way at a time: who asks meanwhile gets its answer.
#[derive(Default)]
pub(crate) struct Readiness {
    state: Mutex<Answers>,
    answered: Condvar,
}

#[derive(Default)]
struct Answers {
    /// Whether the model has an `is_ready`.
    has_words: bool,
    is_asked: bool,
    /// Which interpreter has the instance: a question to a former one, which may never end, does not count.
    interpreter: u64,
    /// Questions that have been answered.
    answers: u64,
    last: bool,
}

/// A question that is under way.
pub(crate) struct Asked {
    readiness: Arc<Readiness>,
    /// The answers that there were before.
    before: u64,
}

impl Readiness {
    /// Another interpreter has the instance from now on, and its model can be asked or cannot.
    pub(crate) fn set(&self, has_words: bool) {
        let mut state = self.state.lock();
        state.interpreter += 1;
        (state.has_words, state.is_asked) = (has_words, false);
    }

    /// Asks on a thread of its own, unless somebody has asked already. `None` if the model says nothing of itself.
    pub(crate) fn ask(
        self: &Arc<Self>,
        question: impl FnOnce() -> bool + Send + 'static,
    ) -> io::Result<Option<Asked>> {
        let mut state = self.state.lock();
        if !state.has_words {
            return Ok(None);
        }
        if !state.is_asked {
            let (asks, interpreter) = (self.clone(), state.interpreter);
            let thread = thread::Builder::new().name("readiness".to_owned()).stack_size(STACK);
            thread.spawn(move || {
                // A question that panics has been answered, too.
                let mut answer = AnswerGuard { readiness: asks, interpreter, is_ready: false };
                answer.is_ready = question();
            })?;
            state.is_asked = true;
        }
        Ok(Some(Asked { readiness: self.clone(), before: state.answers }))
    }
}

impl Asked {
    /// The answer. `None` if it has not come by then.
    pub(crate) fn wait_until(self, deadline: Instant) -> Option<bool> {
        let mut state = self.readiness.state.lock();
        let is_open = |state: &mut Answers| state.answers == self.before;
        self.readiness.answered.wait_while_until(&mut state, is_open, deadline);
        (state.answers != self.before).then_some(state.last)
    }
}

/// Gives the answer when it is dropped.
struct AnswerGuard {
    readiness: Arc<Readiness>,
    interpreter: u64,
    is_ready: bool,
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        let mut state = self.readiness.state.lock();
        if state.interpreter != self.interpreter {
            return;
        }
        (state.is_asked, state.last) = (false, self.is_ready);
        state.answers += 1;
        self.readiness.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, Readiness};
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn who_asks_meanwhile_gets_the_same_answer() {
        let readiness = Arc::new(Readiness::default());
        assert!(readiness.ask(|| panic!("nobody can be asked")).unwrap().is_none());
        readiness.set(true);
        let (answer, question) = channel();
        let first = readiness.ask(move || question.recv().unwrap()).unwrap().unwrap();
        let second = readiness.ask(|| panic!("somebody has asked")).unwrap().unwrap();
        assert_eq!(first.wait_until(Instant::now() + Duration::from_millis(10)), None);
        answer.send(true).unwrap();
        assert_eq!(second.wait_until(Instant::now() + PATIENCE), Some(true));
        let third = readiness.ask(|| false).unwrap().unwrap();
        assert_eq!(third.wait_until(Instant::now() + PATIENCE), Some(false));
    }

    #[test]
    fn a_question_to_a_former_interpreter_holds_nothing_up() {
        let readiness = Arc::new(Readiness::default());
        readiness.set(true);
        let (goes_on, waits) = channel();
        let former = readiness.ask(move || waits.recv().unwrap()).unwrap().unwrap();
        readiness.set(true);
        let asked = readiness.ask(|| true).unwrap().unwrap();
        assert_eq!(asked.wait_until(Instant::now() + PATIENCE), Some(true));
        goes_on.send(false).unwrap();
        let again = readiness.ask(|| true).unwrap().unwrap();
        assert_eq!(again.wait_until(Instant::now() + PATIENCE), Some(true));
        drop(former);
    }

    #[test]
    fn a_question_that_panics_is_answered_by_no() {
        let readiness = Arc::new(Readiness::default());
        readiness.set(true);
        let asked = readiness.ask(|| panic!("a part of the test")).unwrap().unwrap();
        assert_eq!(asked.wait_until(Instant::now() + PATIENCE), Some(false));
    }
}

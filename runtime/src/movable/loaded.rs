//! Which interpreters of a pool have a copy, as a hint for the choice of one.

use crate::interpreter::Interpreter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Places in one segment. A pool of more than `SEGMENTS * PLACES` interpreters gets no hints for the rest.
const PLACES: usize = 32;
const SEGMENTS: usize = 32;

/// For each place of a pool the domain of the interpreter that has a copy, or 0 for none. It holds domains because a place
/// may get another interpreter.
#[derive(Debug, Default)]
pub(super) struct Loaded([OnceLock<Box<[AtomicU32; PLACES]>>; SEGMENTS]);

impl Loaded {
    /// Whether the interpreter, one of the pool's, has a copy. `None` if its place is not noted here.
    pub(super) fn has(&self, interpreter: &Interpreter) -> Option<bool> {
        let index = interpreter.index();
        let Some(segment) = self.0.get(index / PLACES)?.get() else { return Some(false) };
        Some(segment[index % PLACES].load(Ordering::Acquire) == domain(interpreter))
    }

    /// The interpreter, one of the pool's, has one from now on, or none.
    pub(super) fn set(&self, interpreter: &Interpreter, loaded: bool) {
        let index = interpreter.index();
        let Some(segment) = self.0.get(index / PLACES) else { return };
        let place = &segment.get_or_init(Box::default)[index % PLACES];
        let own = domain(interpreter);
        if loaded {
            place.store(own, Ordering::Release);
        } else {
            let _ = place.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// No domain has the number of another one, and the first number is the commons'.
fn domain(interpreter: &Interpreter) -> u32 {
    interpreter.domain().id().index()
}

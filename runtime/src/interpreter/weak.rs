//! References that do not keep an interpreter alive.

use super::{Inner, Interpreter};
use std::fmt;
use std::sync::{Arc, Weak};

/// A reference to an [`Interpreter`] that does not keep it alive: for what the interpreter itself owns, such as a host
/// function ([`Session::function`](crate::Session::function)).
#[derive(Clone)]
pub struct WeakInterpreter(Weak<Inner>);

impl WeakInterpreter {
    /// The interpreter, unless it has ended or begun to.
    ///
    /// The result is a handle as others are. If everybody else drops theirs meanwhile, the drop of the result ends the
    /// interpreter.
    pub fn upgrade(&self) -> Option<Interpreter> {
        self.0.upgrade().map(Interpreter)
    }
}

impl Interpreter {
    /// A reference to this interpreter that does not keep it alive.
    pub fn downgrade(&self) -> WeakInterpreter {
        WeakInterpreter(Arc::downgrade(&self.0))
    }
}

impl fmt::Debug for WeakInterpreter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("WeakInterpreter").finish_non_exhaustive()
    }
}

//! The owner of memory that is lent to an interpreter.

use super::buffer::Buffer;
use super::tensor::Tensor;
use crate::interpreter::Inner;
use crate::session::Session;
use std::any::Any;
use std::sync::Arc;

/// An owner of memory, and the interpreter that must live as long as the memory does.
///
/// They are separate because the memory may be lent to that same interpreter. Its own objects would then
/// keep it alive, and it would never end. In that case only the owner is lent, which cannot outlive the
/// interpreter that borrows it.
pub(super) struct Keeper {
    /// Dropped first: what it gives back is queued in the interpreter, which frees it when it ends.
    pub(super) owner: Arc<dyn Send + Sync>,
    pub(super) interpreter: Option<Arc<Inner>>,
}

impl Keeper {
    /// Anything that the application keeps memory by. Of a [`Tensor`] or a [`Buffer`] it is known
    /// which interpreter it keeps.
    pub(super) fn of<O: Send + Sync + 'static>(owner: O) -> Self {
        let mut owner = Some(owner);
        let any: &mut dyn Any = &mut owner;
        if let Some(tensor) = any.downcast_mut::<Option<Tensor>>().and_then(Option::take) {
            return tensor.into_keeper();
        }
        if let Some(buffer) = any.downcast_mut::<Option<Buffer>>().and_then(Option::take) {
            return buffer.into_keeper();
        }
        let owner = owner.expect("an owner of another type has not been taken");
        Self { owner: Arc::new(owner), interpreter: None }
    }

    /// The same for objects of the session's interpreter to hold.
    pub(super) fn lent_to(self, session: &Session) -> Self {
        let another = |interpreter: &Arc<Inner>| !Arc::ptr_eq(interpreter, session.inner());
        Self { owner: self.owner, interpreter: self.interpreter.filter(another) }
    }
}

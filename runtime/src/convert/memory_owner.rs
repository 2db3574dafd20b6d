//! The owner of memory that is lent to an interpreter.

use super::buffer::Buffer;
use super::tensor::Tensor;
use crate::crash::contain;
use crate::interpreter::{Inner, entered_from_python};
use crate::panics::drop_contained;
use crate::session::Session;
use hydrozoa_loader::DomainId;
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// A value that objects of an interpreter hold, behind the context of a callback.
pub(super) struct Lent<T> {
    pub(super) domain: DomainId,
    pub(super) owner: T,
}

impl<T> Lent<T> {
    /// The context, for the session's interpreter. [`Lent::release`] frees it.
    pub(super) fn context(owner: T, session: &Session) -> *mut c_void {
        let domain = session.interpreter().domain().id();
        let context = Box::into_raw(Box::new(Self { domain, owner })).cast();
        contain::give(domain, context, Self::release);
        context
    }

    /// Drops the owner, in the interpreter that held it. Interpreters that the owner's destructor
    /// enters are entered from there.
    ///
    /// # Safety
    ///
    /// `context` must come from [`Lent::context`] of this `T`, and is freed.
    pub(super) unsafe extern "C" fn release(context: *mut c_void) {
        // SAFETY: as the caller vouches.
        let lent = unsafe { Box::from_raw(context.cast::<Self>()) };
        let domain = lent.domain;
        contain::take_back(domain, context);
        entered_from_python(domain, || drop_contained("what was lent to Python", lent));
        contain::depart();
    }
}

/// An owner of memory, and the interpreter that must live as long as the memory does.
///
/// They are separate because the memory may be lent to that same interpreter. Its own objects would then
/// keep it alive, and it would never end. In that case only the owner is lent, which cannot outlive the
/// interpreter that borrows it.
pub(super) struct MemoryOwner {
    /// Dropped first: what it gives back is queued in the interpreter, which frees it when it ends.
    pub(super) owner: Arc<dyn Send + Sync>,
    pub(super) interpreter: Option<Arc<Inner>>,
}

impl MemoryOwner {
    /// Anything that the application keeps memory by. Of a [`Tensor`] or a [`Buffer`] it is known
    /// which interpreter it keeps.
    pub(super) fn of<O: Send + Sync + 'static>(owner: O) -> Self {
        let mut owner = Some(owner);
        let any: &mut dyn Any = &mut owner;
        if let Some(tensor) = any.downcast_mut::<Option<Tensor>>().and_then(Option::take) {
            return tensor.into_memory_owner();
        }
        if let Some(buffer) = any.downcast_mut::<Option<Buffer>>().and_then(Option::take) {
            return buffer.into_memory_owner();
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

//! Instances of classes, each of which holds a Rust value.

use super::Class;
use crate::convert::{FromPython, ToPython, one_argument};
use crate::crash::contain;
use crate::function::dropped_by_python;
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use hydrozoa_loader::DomainId;
use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A Rust value that is, or becomes, an instance of its Python class.
///
/// As an argument of a host function it is the value of a Python object. As a result, or by
/// [`Session::object_from`], it becomes a new Python object that holds the value. It is an `Arc`: all its objects, in all
/// interpreters, hold one value.
///
/// Python drops the value with the last object that holds it, if nobody else has the `Arc`. That happens under the GIL, on any
/// thread that runs Python. While the interpreter ends, Python frees most objects but not all: a value in an object that it
/// leaves is not dropped. A value that owns a [`Handle`](crate::Handle) of an object that refers to the value's own object
/// is dropped when the interpreter ends. A panic in its drop is reported by `tracing`.
pub struct Instance<T>(Arc<T>);

impl<T: Class> Instance<T> {
    /// An instance that holds a new value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The value.
    pub fn into_arc(self) -> Arc<T> {
        self.0
    }
}

one_argument!(impl {<T: Class>} Instance<T>);

impl<T> Clone for Instance<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Instance<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<Arc<T>> for Instance<T> {
    fn from(value: Arc<T>) -> Self {
        Self(value)
    }
}

impl<T> From<Instance<T>> for Arc<T> {
    fn from(instance: Instance<T>) -> Self {
        instance.0
    }
}

impl<T: Class> fmt::Debug for Instance<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<an instance of {}>", T::NAME)
    }
}

impl<T: Class> ToPython for Instance<T> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        make(session, &session.class::<T>()?, self.0.clone())
    }
}

impl<T: Class> FromPython<'_> for Instance<T> {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let value = held(object).and_then(|held| held.value.clone().downcast().ok());
        let found = || object.type_name();
        value.map(Self).ok_or_else(|| Error::convert(T::NAME, found(), "it is of another type"))
    }
}

/// The contents of a Python object.
struct Held {
    domain: DomainId,
    value: Arc<dyn Any + Send + Sync>,
}

/// A new object of `class` that holds `value`.
pub(super) fn make<'session, T: Class>(
    session: &'session Session,
    class: &Object<'_>,
    value: Arc<T>,
) -> Result<Object<'session>> {
    let class = class.handle_in(session)?;
    session.object(|inner, out, sink| {
        let domain = inner.domain().id();
        let context = Box::into_raw(Box::new(Held { domain, value })).cast();
        contain::give(domain, context, release);
        // SAFETY: `object` attaches, and the class is alive. The payload drops the context once, also on failure.
        unsafe { (inner.table().instance)(class, context, release, out, sink) }
    })
}

/// The value of an instance, unless the object is of another class. The object keeps it alive.
pub(super) fn value_of<'object, T: Class>(object: &'object Object<'_>) -> Option<&'object T> {
    held(object)?.value.downcast_ref()
}

fn held<'object>(object: &'object Object<'_>) -> Option<&'object Held> {
    let _attached = object.session().attach();
    let handle = object.handle_in(object.session()).ok()?;
    // SAFETY: attached, and the object is alive. All contexts come from `make`. The object has its context until it is freed,
    // which is not before the borrow of the reference to it ends.
    unsafe { (object.session().inner().table().held)(handle).cast::<Held>().as_ref() }
}

/// # Safety
///
/// `context` must come from [`make`], and is freed.
unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let held = unsafe { Box::from_raw(context.cast::<Held>()) };
    let domain = held.domain;
    contain::take_back(domain, context);
    dropped_by_python(domain, held);
    contain::depart();
}

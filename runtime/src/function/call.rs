//! Calls from Python to Rust, and the end of what Python owned.

use super::Arguments;
use crate::crash::contain;
use crate::exception;
use crate::interpreter::{Inner, Interpreter, called_from_python, entered_from_python};
use crate::object::Object;
use crate::panics::{contained, drop_contained};
use crate::payload::table::{Callback, Handle};
use crate::session::Session;
use crate::{Error, Result};
use hydrozoa_loader::DomainId;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Weak};

/// The state behind one callable.
struct HostCallable<F> {
    /// Weak, since the interpreter owns the callable.
    interpreter: Weak<Inner>,
    domain: DomainId,
    name: Box<str>,
    function: F,
}

/// The callback for the payload, which drops the result once.
pub(super) fn callback<F>(inner: &Arc<Inner>, name: &str, function: F) -> Callback
where
    F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
{
    let (interpreter, domain) = (Arc::downgrade(inner), inner.domain().id());
    let state = Box::new(HostCallable { interpreter, domain, name: name.into(), function });
    let context = Box::into_raw(state).cast();
    contain::give(domain, context, release::<F>);
    Callback { context, call: call::<F>, drop: release::<F> }
}

/// # Safety
///
/// As [`Callback::call`] says; `context` must be a live [`HostCallable`] of this `F`.
unsafe extern "C" fn call<F>(
    context: *mut c_void,
    arguments: *const Handle,
    count: usize,
    names: Handle,
) -> Handle
where
    F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
{
    // SAFETY: as the caller vouches.
    let state = unsafe { &*context.cast::<HostCallable<F>>() };
    let function = |session: &Session| {
        // SAFETY: Python keeps the arguments alive during the call, in which we are attached.
        let arguments = unsafe { Arguments::collect(session, arguments, count, names) }?;
        (state.function)(session, arguments)?.into_handle_in(session)
    };
    let result = if let Some(session) = Session::of_visit(&state.interpreter) {
        guarded(&session, &state.name, function)
    } else {
        // An ending interpreter gives out no sessions. A null without an exception becomes
        // a SystemError.
        match state.interpreter.upgrade() {
            Some(inner) => guarded(&Interpreter(inner).session(), &state.name, function),
            None => ptr::null_mut(),
        }
    };
    contain::depart();
    result
}

/// Calls `function`, and raises its error in Python.
fn guarded(
    session: &Session,
    name: &str,
    function: impl FnOnce(&Session) -> Result<Handle>,
) -> Handle {
    let inner = session.inner();
    let raise = |error| {
        // SAFETY: Python has called attached, and gets a null.
        unsafe { exception::raise(inner, error) };
        ptr::null_mut()
    };
    called_from_python(inner, || {
        // Of the results only the handle leaves this: an error is large.
        let outcome = contained(|| function(session).unwrap_or_else(raise));
        outcome.unwrap_or_else(|text| {
            raise(Error::Panic(format!("the host function '{name}' panicked: {text}")))
        })
    })
}

/// # Safety
///
/// `context` must be a [`HostCallable`] of this `F` from `Box::into_raw`, and is freed.
unsafe extern "C" fn release<F>(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let state = unsafe { Box::from_raw(context.cast::<HostCallable<F>>()) };
    let domain = state.domain;
    contain::take_back(domain, context);
    dropped_by_python(domain, state);
    contain::depart();
}

/// Drops what Python owned, maybe on a thread that Python created.
pub(crate) fn dropped_by_python(domain: DomainId, owned: impl Sized) {
    entered_from_python(domain, || drop_contained("a value that Python owned", owned));
}

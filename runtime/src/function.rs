//! Rust functions that Python code can call.

use crate::convert::FromPython;
use crate::error::panic_message;
use crate::interpreter::{Inner, Interpreter, entered_from_python};
use crate::object::Object;
use crate::payload::passing;
use crate::payload::table::{Callback, Handle, Interrupt, Text};
use crate::session::Session;
use crate::{Error, Result};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Weak};

/// The arguments of a call to a host function.
#[derive(Debug)]
pub struct Arguments<'session> {
    /// Positional arguments.
    pub positional: Vec<Object<'session>>,
    /// Named arguments, in order.
    pub named: Vec<(String, Object<'session>)>,
}

impl<'session> Arguments<'session> {
    /// The positional argument at `index`, from 0.
    ///
    /// # Errors
    ///
    /// A `TypeError` for the Python caller if the argument is missing, or [`Error::Convert`].
    pub fn extract<T: FromPython<'session>>(&self, index: usize) -> Result<T> {
        match self.positional.get(index) {
            Some(object) => object.extract(),
            None => Err(Error::Python {
                type_name: "TypeError".to_owned(),
                message: format!(
                    "at least {} positional arguments are needed, {} were given",
                    index + 1,
                    self.positional.len()
                ),
                traceback: String::new(),
            }),
        }
    }
}

/// The state behind one callable.
struct Function<F> {
    /// Weak, since the interpreter owns the callable.
    interpreter: Weak<Inner>,
    name: Box<str>,
    function: F,
}

impl Session {
    /// Makes a Python callable that runs `function`.
    ///
    /// The function runs under the interpreter's GIL, on its caller's thread. If it enters another
    /// interpreter, this one's GIL is released meanwhile. An error of the function is raised in Python:
    /// [`Error::Python`] as the built-in exception of that name, an interrupt as that interrupt, any other error and a
    /// panic ([`Error::Panic`]) as a `RuntimeError`. While the interpreter ends (in `atexit` functions, in the last
    /// destructors) the function is not called any more, and Python gets a `SystemError`.
    ///
    /// Python owns `function`. If that owns a [`Pool`](crate::Pool) or an [`Interpreter`] of its own pool, the two keep each
    /// other alive, and the interpreter does not end. The session that the function gets leads to both:
    /// `session.interpreter().pool()`. A [`WeakPool`](crate::WeakPool), a
    /// [`WeakInterpreter`](crate::WeakInterpreter) and a [`Handle`](crate::Handle) keep no interpreter alive, so `function` may
    /// own them.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`].
    pub fn function<F>(&self, name: &str, function: F) -> Result<Object<'_>>
    where
        F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
    {
        let interpreter = Arc::downgrade(self.inner());
        let state = Box::new(Function { interpreter, name: name.into(), function });
        let callback =
            Callback { context: Box::into_raw(state).cast(), call: call::<F>, drop: release::<F> };
        self.object(|inner, out, sink| {
            // SAFETY: `object` attaches; the payload drops the callback once, also on failure.
            unsafe { (inner.table().function)(Text::new(name), &callback, out, sink) }
        })
    }
}

/// # Safety
///
/// As [`Callback::call`] says; `context` must be a live [`Function`] of this `F`.
unsafe extern "C" fn call<F>(context: *mut c_void, arguments: Handle, keywords: Handle) -> Handle
where
    F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
{
    // SAFETY: as the caller vouches.
    let state = unsafe { &*context.cast::<Function<F>>() };
    // While the interpreter ends there is no session to be had. A null without an exception becomes
    // a SystemError.
    let Some(inner) = state.interpreter.upgrade() else {
        return ptr::null_mut();
    };
    entered_from_python(inner.domain().id(), || {
        let interpreter = Interpreter(inner.clone());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let session = interpreter.session();
            // SAFETY: Python keeps the arguments alive during the call, in which we are attached.
            let arguments = unsafe { collect(&session, arguments, keywords) }?;
            (state.function)(&session, arguments)?.into_handle_in(&session)
        }))
        .unwrap_or_else(|panic| {
            let text = panic_message(&*panic);
            Err(Error::Panic(format!("the host function '{}' panicked: {text}", state.name)))
        });
        match outcome {
            Ok(handle) => handle,
            Err(error) => {
                let interrupt = reason(&error).and_then(Interrupt::class);
                let interrupt = interrupt.map(|class| format!("{}.{class}", Interrupt::MODULE));
                let (type_name, message) = match (&error, &interrupt) {
                    (_, Some(type_name)) => (type_name.as_str(), String::new()),
                    (Error::Python { type_name, message, .. }, _) => {
                        (type_name.as_str(), message.clone())
                    }
                    (other, _) => (passing::TYPE, other.to_string()),
                };
                // SAFETY: attached, and about to return null.
                unsafe { (inner.table().raise)(Text::new(type_name), Text::new(&message)) };
                passing::keep(error, message);
                ptr::null_mut()
            }
        }
    })
}

/// The reason, if a call that the function made was interrupted.
fn reason(error: &Error) -> Option<Interrupt> {
    match error {
        Error::Interrupted { .. } => Some(Interrupt::HANDLE),
        Error::Deadline { .. } => Some(Interrupt::DEADLINE),
        _ => None,
    }
}

/// # Safety
///
/// `positional` must be a live tuple, `named` a live dict or null.
unsafe fn collect(session: &Session, positional: Handle, named: Handle) -> Result<Arguments<'_>> {
    // SAFETY: as the caller vouches.
    let positional = unsafe { Object::from_borrowed(session, positional) }.extract()?;
    let named = if named.is_null() {
        Vec::new()
    } else {
        // SAFETY: as the caller vouches.
        crate::convert::named(&unsafe { Object::from_borrowed(session, named) })?
    };
    Ok(Arguments { positional, named })
}

/// # Safety
///
/// `context` must be a [`Function`] of this `F` from `Box::into_raw`, and is freed.
unsafe extern "C" fn release<F>(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let state = unsafe { Box::from_raw(context.cast::<Function<F>>()) };
    // What the closure owns may be dropped on a thread that Python created.
    match state.interpreter.upgrade() {
        Some(inner) => entered_from_python(inner.domain().id(), || drop(state)),
        None => drop(state),
    }
}

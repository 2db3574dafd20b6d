//! Rust functions that Python code can call.

use crate::contained::{contained, drop_contained};
use crate::convert::FromPython;
use crate::exception;
use crate::interpreter::{Inner, Interpreter, called_from_python, entered_from_python};
use crate::object::Object;
use crate::payload::table::{Callback, Handle, Text};
use crate::session::Session;
use crate::{Error, Result};
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{Arc, Weak};

/// The arguments of a call to a host function. They belong to the call.
pub struct Arguments<'session> {
    session: &'session Session,
    /// Positional ones, then one for each name. They live during the call.
    values: &'session [Handle],
    positional: usize,
    /// A tuple, or null.
    names: Handle,
}

// SAFETY: as for `Object`: handles are addresses that are only used under the interpreter's GIL.
unsafe impl Send for Arguments<'_> {}
// SAFETY: as above.
unsafe impl Sync for Arguments<'_> {}

impl<'session> Arguments<'session> {
    /// The number of positional arguments.
    pub fn len(&self) -> usize {
        self.positional
    }

    /// Whether there is no positional argument.
    pub fn is_empty(&self) -> bool {
        self.positional == 0
    }

    /// The positional argument at `index`, from 0.
    pub fn get(&self, index: usize) -> Option<Object<'session>> {
        self.positional().get(index).map(|handle| Object::clone(&self.lend(*handle)))
    }

    /// The positional arguments.
    pub fn iter(&self) -> impl Iterator<Item = Object<'session>> + '_ {
        self.positional().iter().map(|handle| Object::clone(&self.lend(*handle)))
    }

    /// The positional argument at `index`, from 0, as a Rust value.
    ///
    /// # Errors
    ///
    /// A `TypeError` for the Python caller if the argument is missing, or [`Error::Convert`].
    #[inline]
    pub fn extract<T: FromPython<'session>>(&self, index: usize) -> Result<T> {
        match self.positional().get(index) {
            Some(handle) => self.lend(*handle).extract(),
            None => Err(self.missing(index)),
        }
    }

    /// The named arguments, in order.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if a name has lone surrogates.
    pub fn named(&self) -> Result<Vec<(String, Object<'session>)>> {
        if self.names.is_null() {
            return Ok(Vec::new());
        }
        let names: Vec<String> = self.lend(self.names).extract()?;
        let values = self.values[self.positional..].iter();
        Ok(names.into_iter().zip(values.map(|handle| Object::clone(&self.lend(*handle)))).collect())
    }

    /// The named argument `name` as a Rust value, or `None` if it was not given.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`].
    pub fn extract_named<T: FromPython<'session>>(&self, name: &str) -> Result<Option<T>> {
        let named = self.named()?.into_iter().find(|(given, _)| given == name);
        named.map(|(_, object)| object.extract()).transpose()
    }

    fn positional(&self) -> &'session [Handle] {
        &self.values[..self.positional]
    }

    /// An argument without a reference of its own.
    fn lend(&self, handle: Handle) -> ManuallyDrop<Object<'session>> {
        // SAFETY: the caller of the function keeps its arguments alive during the call, which this does not outlive, and
        // they are objects of the session's interpreter. The reference is not given up.
        ManuallyDrop::new(unsafe { Object::from_owned(self.session, handle) })
    }

    #[cold]
    fn missing(&self, index: usize) -> Error {
        let given = self.positional;
        let text =
            format!("at least {} positional arguments are needed, {given} were given", index + 1);
        Error::raise("TypeError", text)
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = formatter.debug_tuple("Arguments");
        for value in self.iter() {
            described.field(&value);
        }
        for (name, value) in self.named().unwrap_or_default() {
            described.field(&format_args!("{name}={value:?}"));
        }
        described.finish()
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
    /// interpreter, this one's GIL is released meanwhile. While the interpreter ends (in `atexit` functions, in the last
    /// destructors) the function is not called any more, and Python gets a `SystemError`.
    ///
    /// An error of the function is raised in Python. An exception of this interpreter, as calls return it, is raised as the
    /// same object. [`Error::raise`] is raised as the built-in exception of that name,
    /// [`Object::into_error`] as that object. An exception of another interpreter is raised by its name, with a cause that
    /// has its traceback. An interrupt is raised as that interrupt. Any other error, an error of the
    /// application ([`Error::host`]) and a panic ([`Error::Panic`]) are raised as a `RuntimeError`. If that leaves Python,
    /// Rust gets its own error again, except for [`Error::Convert`].
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
    let state = unsafe { &*context.cast::<Function<F>>() };
    let function = |session: &Session| {
        // SAFETY: Python keeps the arguments alive during the call, in which we are attached.
        let arguments = unsafe { collect(session, arguments, count, names) }?;
        (state.function)(session, arguments)?.into_handle_in(session)
    };
    if let Some(session) = Session::of_visit(&state.interpreter) {
        return guarded(&session, &state.name, function);
    }
    // While the interpreter ends there is no session to be had. A null without an exception becomes
    // a SystemError.
    match state.interpreter.upgrade() {
        Some(inner) => guarded(&Interpreter(inner).session(), &state.name, function),
        None => ptr::null_mut(),
    }
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
        outcome.unwrap_or_else(|panic| {
            raise(Error::Panic(format!("the host function '{name}' panicked: {panic}")))
        })
    })
}

/// # Safety
///
/// Attached. `values` must have `positional` live objects and one for each item of `names`, a tuple or null, during `'s`.
unsafe fn collect(
    session: &Session,
    values: *const Handle,
    positional: usize,
    names: Handle,
) -> Result<Arguments<'_>> {
    let named = match names.is_null() {
        true => 0,
        // SAFETY: as the caller vouches.
        false => ManuallyDrop::new(unsafe { Object::from_owned(session, names) }).len()?,
    };
    // Without arguments CPython may pass null.
    let values = match positional + named {
        0 => &[],
        // SAFETY: as the caller vouches.
        count => unsafe { std::slice::from_raw_parts(values, count) },
    };
    Ok(Arguments { session, values, positional, names })
}

/// # Safety
///
/// `context` must be a [`Function`] of this `F` from `Box::into_raw`, and is freed.
unsafe extern "C" fn release<F>(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let state = unsafe { Box::from_raw(context.cast::<Function<F>>()) };
    // What the closure owns may be dropped on a thread that Python created.
    match state.interpreter.upgrade() {
        Some(inner) => {
            entered_from_python(inner.domain().id(), || drop_contained("a host function", state))
        }
        None => drop_contained("a host function", state),
    }
}

//! References to Python objects.

mod session;

use crate::convert::{FromPython, List, Plain, ToArguments, ToKeywords, ToPython};
use crate::interpreter::Interpreter;
use crate::payload::table::{CallArguments, Handle, Kind, PayloadTable, Status, TaggedValue, Text};
use crate::payload::{Sink, release};
use crate::session::Session;
use crate::thread::stack;
use crate::{Error, Result};
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A reference to a Python object. It cannot outlive its session.
///
/// Every operation takes the interpreter's GIL for its own time; put [`Session::with_gil`] around many
/// operations. Dropping an object without the GIL never waits: the next thread that enters the
/// interpreter frees the reference.
pub struct Object<'session> {
    session: &'session Session,
    handle: NonNull<c_void>,
}

// SAFETY: a handle is an address; whatever touches what it points to holds the interpreter's GIL,
// which any thread may take. Python objects are used by many threads under one GIL every day.
unsafe impl Send for Object<'_> {}
// SAFETY: as above: shared references only lead to operations under the GIL.
unsafe impl Sync for Object<'_> {}

impl<'session> Object<'session> {
    /// Takes an owned reference over.
    ///
    /// # Safety
    ///
    /// `handle` must be an owned reference to an object of the session's interpreter, not null.
    pub(crate) unsafe fn from_owned(session: &'session Session, handle: Handle) -> Self {
        debug_assert!(!handle.is_null());
        Self {
            session,
            // SAFETY: the caller vouches that it is not null.
            handle: unsafe { NonNull::new_unchecked(handle) },
        }
    }

    /// One more reference to a borrowed object.
    ///
    /// # Safety
    ///
    /// `handle` must refer to a live object of the session's interpreter.
    pub(crate) unsafe fn from_borrowed(session: &'session Session, handle: Handle) -> Self {
        let _attached = session.attach();
        // SAFETY: attached, and the object lives, as the caller vouches.
        unsafe { (session.inner().table().retain)(handle) };
        // SAFETY: the reference just made is owned by the result.
        unsafe { Self::from_owned(session, handle) }
    }

    /// The session that it belongs to.
    pub fn session(&self) -> &'session Session {
        self.session
    }

    /// The borrowed reference, for functions of the table of `receiver`'s interpreter.
    ///
    /// This and [`Object::into_handle_in`] are the only ways by which an object gets into an
    /// interpreter. A lifetime does not tell one interpreter from another: sessions that were leaked
    /// all live as long as the process.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] if the object is of another interpreter.
    #[inline]
    pub(crate) fn handle_in(&self, receiver: &Session) -> Result<Handle> {
        let (owner, receiver) = (self.session.interpreter(), receiver.interpreter());
        if Arc::ptr_eq(&owner.0, &receiver.0) {
            return Ok(self.handle());
        }
        Err(foreign(owner, receiver))
    }

    /// As [`Object::handle_in`], and gives the reference to the caller.
    ///
    /// # Errors
    ///
    /// As [`Object::handle_in`].
    pub(crate) fn into_handle_in(self, receiver: &Session) -> Result<Handle> {
        self.handle_in(receiver)?;
        Ok(self.into_parts().1)
    }

    /// The reference, which the caller gets, and the session of its interpreter.
    pub(crate) fn into_parts(self) -> (&'session Session, Handle) {
        let parts = (self.session, self.handle());
        std::mem::forget(self);
        parts
    }

    /// The borrowed reference, for functions of its own interpreter's table.
    fn handle(&self) -> Handle {
        self.handle.as_ptr()
    }

    /// Runs one table function on this object that yields nothing, or writes through captured
    /// pointers. The thread is attached, and the object alive.
    #[inline]
    pub(crate) fn perform(
        &self,
        call: impl FnOnce(&PayloadTable, Handle, *mut c_void) -> Status,
    ) -> Result<()> {
        self.session.perform(|inner, sink| call(inner.table(), self.handle(), sink))
    }

    /// As [`Object::perform`], of a table function that yields an object.
    #[inline]
    fn object(
        &self,
        call: impl FnOnce(&PayloadTable, Handle, *mut Handle, *mut c_void) -> Status,
    ) -> Result<Object<'session>> {
        self.session.object(|inner, out, sink| call(inner.table(), self.handle(), out, sink))
    }

    /// Whether both are the same object (`is`).
    pub fn is(&self, other: &Object<'_>) -> bool {
        self.handle == other.handle
    }

    /// Whether it is `None`.
    pub fn is_none(&self) -> bool {
        let mut leaf = TaggedValue::new(Kind::OTHER);
        // SAFETY: `perform` attaches, and the object is alive.
        let seen =
            self.perform(|table, handle, sink| unsafe { (table.inspect)(handle, &mut leaf, sink) });
        seen.is_ok() && leaf.kind == Kind::NONE
    }

    /// The two's complement of an `int`, little-endian, as `bytes`.
    ///
    /// # Errors
    ///
    /// `AttributeError`, or another exception, if it is not an `int`.
    pub(crate) fn digits(&self) -> Result<Object<'session>> {
        self.object(|table, handle, out, sink| {
            // SAFETY: attached, and the object is alive.
            unsafe { (table.digits)(handle, out, sink) }
        })
    }

    /// `getattr(self, name)`.
    ///
    /// # Errors
    ///
    /// `AttributeError`, or the exception of the attribute's code.
    pub fn getattr(&self, name: &str) -> Result<Object<'session>> {
        self.object(|table, handle, out, sink| {
            // SAFETY: attached; the object and the name outlive the call.
            unsafe { (table.attribute)(handle, Text::new(name), out, sink) }
        })
    }

    /// `setattr(self, name, value)`.
    ///
    /// # Errors
    ///
    /// `AttributeError`, or the exception of the attribute's code.
    pub fn setattr<T: ToPython>(&self, name: &str, value: T) -> Result<()> {
        let _attached = self.session.attach();
        let value = value.to_python(self.session)?;
        let value = value.handle_in(self.session)?;
        self.perform(|table, handle, sink| {
            // SAFETY: attached; objects and name outlive the call.
            unsafe { (table.set_attribute)(handle, Text::new(name), value, sink) }
        })
    }

    /// `self(*arguments)`. Arguments are a tuple of up to twelve values, or one value: see [`ToArguments`].
    ///
    /// # Errors
    ///
    /// The exception that the call raises, or a failed conversion of an argument.
    pub fn call<A: ToArguments>(&self, arguments: A) -> Result<Object<'session>> {
        self.invoke("", &arguments, &())
    }

    /// `self(*arguments, **keywords)`.
    ///
    /// # Errors
    ///
    /// As [`Object::call`].
    pub fn call_kwargs<A: ToArguments, K: ToKeywords>(
        &self,
        arguments: A,
        keywords: K,
    ) -> Result<Object<'session>> {
        self.invoke("", &arguments, &keywords)
    }

    /// `self.method(*arguments)`, without a bound method in between.
    ///
    /// # Errors
    ///
    /// As [`Object::call`], and `AttributeError`.
    pub fn call_method<A: ToArguments>(
        &self,
        method: &str,
        arguments: A,
    ) -> Result<Object<'session>> {
        self.invoke(method, &arguments, &())
    }

    /// `self.method(*arguments, **keywords)`.
    ///
    /// # Errors
    ///
    /// As [`Object::call_method`].
    pub fn call_method_kwargs<A: ToArguments, K: ToKeywords>(
        &self,
        method: &str,
        arguments: A,
        keywords: K,
    ) -> Result<Object<'session>> {
        self.invoke(method, &arguments, &keywords)
    }

    #[inline]
    fn invoke<A: ToArguments + ?Sized, K: ToKeywords + ?Sized>(
        &self,
        method: &str,
        arguments: &A,
        keywords: &K,
    ) -> Result<Object<'session>> {
        stack::check()?;
        let _attached = self.session.attach();
        let mut list = List::new(self.session);
        arguments.append_to(&mut list.positional())?;
        keywords.append_to(&mut list.named())?;
        self.call_with(method, &mut list)
    }

    /// Calls it with arguments that were made. The thread is attached, and has room on its stack.
    fn call_with(&self, method: &str, list: &mut List<'_>) -> Result<Object<'session>> {
        self.session.object_attached(|inner, out, sink| {
            let (values, names) = list.take();
            let arguments = CallArguments {
                values: values.as_ptr(),
                positional: values.len() - names.len(),
                names: names.as_ptr(),
                named: names.len(),
            };
            // SAFETY: attached. The values and names are valid, and there is a value for each name behind the
            // positional ones.
            unsafe { (inner.table().call)(self.handle(), Text::new(method), &arguments, out, sink) }
        })
    }

    /// Converts the object to a Rust value: `object.extract::<i64>()?`.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if the object has no such value.
    #[inline]
    pub fn extract<T: FromPython<'session>>(&self) -> Result<T> {
        if T::PLAIN && self.session.inner().is_held() {
            let mut leaf = TaggedValue::new(Kind::OTHER);
            // SAFETY: the thread holds the GIL, and the object is alive. No Python code runs, so the view stays valid.
            if let Some(value) = unsafe { self.look(&mut leaf) }.and_then(T::from_plain) {
                return Ok(value);
            }
        }
        let _attached = self.session.attach();
        T::from_python(self)
    }

    /// The object's value, if a look is enough to get it.
    ///
    /// # Safety
    ///
    /// The calling thread holds the GIL. The result is valid until it lets go of it or Python code runs.
    #[inline]
    unsafe fn look<'a>(&'a self, leaf: &mut TaggedValue) -> Option<Plain<'a>> {
        let mut sink = Sink::default();
        // SAFETY: attached, as the caller vouches, and the object is alive. A caller that asks in another way finds the
        // failure again.
        unsafe {
            match (self.session.inner().table().inspect)(self.handle(), leaf, sink.pointer()) {
                Status::DONE => Plain::of(leaf),
                _ => None,
            }
        }
    }

    /// `str(self)`.
    ///
    /// # Errors
    ///
    /// The exception of `__str__`, or [`Error::Convert`] for lone surrogates.
    pub fn str(&self) -> Result<String> {
        self.text(0)
    }

    /// `repr(self)`.
    ///
    /// # Errors
    ///
    /// As [`Object::str`].
    pub fn repr(&self) -> Result<String> {
        self.text(1)
    }

    fn text(&self, representation: c_int) -> Result<String> {
        let _attached = self.session.attach();
        self.object(|table, handle, out, sink| {
            // SAFETY: attached, and the object is alive.
            unsafe { (table.text)(handle, representation, out, sink) }
        })?
        .extract()
    }

    /// The name of its type, as `type(self).__qualname__`.
    pub fn type_name(&self) -> String {
        self.getattr("__class__")
            .and_then(|class| class.getattr("__qualname__")?.extract())
            .unwrap_or_else(|_| "an object".to_owned())
    }

    /// `bool(self)`.
    ///
    /// # Errors
    ///
    /// The exception of `__bool__` or `__len__`.
    pub fn truth(&self) -> Result<bool> {
        let mut truth = 0;
        self.perform(|table, handle, sink| {
            // SAFETY: attached, and the object is alive.
            unsafe { (table.truth)(handle, &mut truth, sink) }
        })?;
        Ok(truth != 0)
    }

    /// `len(self)`.
    ///
    /// # Errors
    ///
    /// `TypeError` if it has no length.
    pub fn len(&self) -> Result<usize> {
        let mut length = 0;
        self.perform(|table, handle, sink| {
            // SAFETY: attached, and the object is alive.
            unsafe { (table.length)(handle, &mut length, sink) }
        })?;
        Ok(length)
    }

    /// `len(self) == 0`.
    ///
    /// # Errors
    ///
    /// As [`Object::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// `self[key]`.
    ///
    /// # Errors
    ///
    /// `KeyError`, `IndexError` or `TypeError`.
    pub fn get_item<K: ToPython>(&self, key: K) -> Result<Object<'session>> {
        let _attached = self.session.attach();
        let key = key.to_python(self.session)?;
        let key = key.handle_in(self.session)?;
        self.object(|table, handle, out, sink| {
            // SAFETY: attached; both objects outlive the call.
            unsafe { (table.item)(handle, key, out, sink) }
        })
    }

    /// `self[key] = value`.
    ///
    /// # Errors
    ///
    /// As [`Object::get_item`].
    pub fn set_item<K: ToPython, V: ToPython>(&self, key: K, value: V) -> Result<()> {
        let _attached = self.session.attach();
        let key = key.to_python(self.session)?;
        let value = value.to_python(self.session)?;
        self.store(&key, value.handle_in(self.session)?)
    }

    /// `del self[key]`.
    ///
    /// # Errors
    ///
    /// As [`Object::get_item`].
    pub fn delete_item<K: ToPython>(&self, key: K) -> Result<()> {
        let _attached = self.session.attach();
        let key = key.to_python(self.session)?;
        self.store(&key, ptr::null_mut())
    }

    /// `value` is a handle of this interpreter, or null for deletion.
    fn store(&self, key: &Object<'_>, value: Handle) -> Result<()> {
        let key = key.handle_in(self.session)?;
        self.perform(|table, handle, sink| {
            // SAFETY: attached; the caller keeps key and value alive.
            unsafe { (table.set_item)(handle, key, value, sink) }
        })
    }

    /// `iter(self)`.
    ///
    /// # Errors
    ///
    /// `TypeError` if it is not iterable.
    pub fn iter(&self) -> Result<Iter<'session>> {
        let iterator = self.object(|table, handle, out, sink| {
            // SAFETY: attached, and the object is alive.
            unsafe { (table.iterate)(handle, out, sink) }
        })?;
        Ok(Iter { iterator: Some(iterator) })
    }
}

/// An object of `owner` was to get into `receiver`.
pub(crate) fn foreign(owner: &Interpreter, receiver: &Interpreter) -> Error {
    // Each pool counts its interpreters from 0.
    let owner = match owner.shares_pool_with(receiver) {
        true => owner.name().to_owned(),
        false => format!("{} of another pool", owner.name()),
    };
    Error::Foreign { owner, receiver: receiver.name().to_owned() }
}

impl Clone for Object<'_> {
    fn clone(&self) -> Self {
        // SAFETY: this object is alive and belongs to its session's interpreter.
        unsafe { Self::from_borrowed(self.session, self.handle()) }
    }
}

impl Drop for Object<'_> {
    #[inline]
    fn drop(&mut self) {
        let inner = self.session.inner();
        // SAFETY: the reference is owned. `release` may be called by any thread, attached or not; the session keeps the
        // interpreter alive.
        unsafe {
            match inner.is_held() {
                true => (inner.table().release_attached)(self.handle()),
                false => release(inner.table(), self.handle()),
            }
        }
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.repr().unwrap_or_else(|error| format!("<{error}>"));
        formatter.write_str(&text)
    }
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.str().unwrap_or_else(|error| format!("<{error}>"));
        formatter.write_str(&text)
    }
}

/// The items of a Python iterator. It ends after the first error.
#[derive(Debug)]
pub struct Iter<'session> {
    iterator: Option<Object<'session>>,
}

impl<'session> Iterator for Iter<'session> {
    type Item = Result<Object<'session>>;

    fn next(&mut self) -> Option<Self::Item> {
        let iterator = self.iterator.as_ref()?;
        let session = iterator.session;
        if let Err(error) = stack::check() {
            return Some(Err(error));
        }
        let attached = session.attach();
        let mut out = ptr::null_mut();
        let mut sink = Sink::of(session.inner());
        // SAFETY: attached, and the iterator is alive.
        let status =
            unsafe { (session.inner().table().next)(iterator.handle(), &mut out, sink.pointer()) };
        drop(attached);
        let item = match sink.check(status) {
            Ok(()) if !out.is_null() => {
                // SAFETY: success with an object means an owned reference.
                return Some(Ok(unsafe { Object::from_owned(session, out) }));
            }
            Ok(()) => None,
            Err(error) => Some(Err(error)),
        };
        self.iterator = None;
        item
    }
}

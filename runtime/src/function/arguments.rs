//! The arguments of host functions.

use crate::convert::FromPython;
use crate::object::Object;
use crate::payload::table::Handle;
use crate::session::Session;
use crate::{Error, Result};
use std::fmt;
use std::mem::ManuallyDrop;

/// The arguments of a call to a host function. They belong to the call.
///
/// A function with a signature ([`Function::signature`](crate::Function::signature)) gets one positional argument for each of
/// its parameters, in the signature's order, and no named ones. A parameter that the caller has not given has its default.
/// `*args` is a tuple, and `**kwargs` a dict.
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

    /// Whether the call has no positional arguments.
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

    /// The same for a function with a signature, of the parameter `name`.
    ///
    /// # Errors
    ///
    /// A `TypeError` for the Python caller that names the parameter, if the value cannot be converted.
    #[inline]
    pub fn parameter<T: FromPython<'session>>(&self, index: usize, name: &str) -> Result<T> {
        self.extract(index).map_err(|error| match error {
            Error::Convert { .. } => {
                Error::raise("TypeError", format!("argument '{name}': {error}"))
            }
            other => other,
        })
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

    /// # Safety
    ///
    /// Attached. `values` must have `positional` live objects and one for each item of `names`, a tuple or null, during
    /// `'session`.
    #[inline]
    pub(super) unsafe fn collect(
        session: &'session Session,
        values: *const Handle,
        positional: usize,
        names: Handle,
    ) -> Result<Self> {
        let named = match names.is_null() {
            true => 0,
            // SAFETY: as the caller vouches.
            false => unsafe { count(session, names) }?,
        };
        // Without arguments CPython may pass null.
        let values = match positional + named {
            0 => &[],
            // SAFETY: as the caller vouches.
            count => unsafe { std::slice::from_raw_parts(values, count) },
        };
        Ok(Self { session, values, positional, names })
    }

    /// The first positional argument, without a reference of its own, and the others.
    pub(crate) fn split_first(self) -> Option<(ManuallyDrop<Object<'session>>, Self)> {
        let (&first, values) = self.values.split_first().filter(|_| self.positional > 0)?;
        let first = self.lend(first);
        Some((first, Self { values, positional: self.positional - 1, ..self }))
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

/// The length of a tuple of names.
///
/// # Safety
///
/// Attached, and the tuple is alive.
unsafe fn count(session: &Session, names: Handle) -> Result<usize> {
    // SAFETY: as the caller vouches; the reference is not given up.
    ManuallyDrop::new(unsafe { Object::from_owned(session, names) }).len()
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

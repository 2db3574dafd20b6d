//! Python objects of values that the host passes.

use crate::api::fault::Outcome;
use crate::api::reference::Ref;
use crate::table::{Kind, TaggedValue};
use crate::values::plain::object_of;
use pyo3_ffi::{Py_DECREF, PyObject};
use std::mem::MaybeUninit;
use std::ptr;

/// The objects of values, one after the other. References that the values own are taken over, also those that nobody asks
/// for.
pub(crate) struct ItemObjects<'a> {
    rest: &'a [TaggedValue],
}

impl<'a> ItemObjects<'a> {
    /// # Safety
    ///
    /// The thread is attached until after the result is dropped. Views and objects in `values` are valid.
    pub(crate) unsafe fn new(values: &'a [TaggedValue]) -> Self {
        Self { rest: values }
    }

    /// The next one. The caller does not ask for more than there are.
    #[inline]
    pub(crate) fn next(&mut self) -> Outcome<Ref> {
        let (value, rest) = match self.rest {
            [value, rest @ ..] => (value, rest),
            [] => (&TaggedValue::new(Kind::NONE), self.rest),
        };
        self.rest = rest;
        // SAFETY: attached and valid, as `new` asks. An owned reference is taken over once: the value is behind.
        unsafe {
            match value.kind {
                Kind::BORROWED => Ref::borrowed(value.as_object().cast()),
                Kind::OWNED => Ref::owned(value.as_object().cast()),
                _ => object_of(value),
            }
        }
    }
}

impl Drop for ItemObjects<'_> {
    fn drop(&mut self) {
        for value in self.rest.iter().filter(|value| value.kind == Kind::OWNED) {
            // SAFETY: attached; the reference was given to this, and not passed on.
            unsafe { Py_DECREF(value.as_object().cast()) };
        }
    }
}

/// So many objects fit on the stack.
const INLINE: usize = 14;

/// Objects of values in a row, for one call.
pub(crate) struct ArgumentObjects<'a> {
    values: &'a [TaggedValue],
    /// How many of them have an object.
    done: usize,
    inline: [MaybeUninit<*mut PyObject>; INLINE],
    /// All of them, if they do not fit.
    outside: Vec<*mut PyObject>,
}

impl<'a> ArgumentObjects<'a> {
    /// Places before the objects, for the caller's use.
    pub(crate) const SKIPPED: usize = 2;

    /// Makes none yet. The references that `values` own are taken over in every case.
    ///
    /// # Safety
    ///
    /// The thread is attached until after the result is dropped. Views and objects in `values` are valid.
    #[inline]
    pub(crate) unsafe fn new(values: &'a [TaggedValue]) -> Self {
        let places = Self::SKIPPED + values.len();
        let outside = match places <= INLINE {
            true => Vec::new(),
            false => vec![ptr::null_mut(); places],
        };
        Self { values, done: 0, inline: [const { MaybeUninit::uninit() }; INLINE], outside }
    }

    /// Makes them all, and returns the first place, of those that are skipped too.
    #[inline]
    pub(crate) fn make(&mut self) -> Outcome<*mut *mut PyObject> {
        let places = self.places();
        for value in self.values {
            // SAFETY: attached and valid, as `new` asks; there is a place for each.
            unsafe {
                let object = match value.kind {
                    Kind::BORROWED | Kind::OWNED => value.as_object().cast(),
                    _ => object_of(value)?.into_handle().cast(),
                };
                *places.add(Self::SKIPPED + self.done) = object;
            }
            self.done += 1;
        }
        Ok(places)
    }

    fn places(&mut self) -> *mut *mut PyObject {
        match self.outside.is_empty() {
            true => self.inline.as_mut_ptr().cast(),
            false => self.outside.as_mut_ptr(),
        }
    }
}

impl Drop for ArgumentObjects<'_> {
    fn drop(&mut self) {
        let done = self.done;
        let objects = self.places().wrapping_add(Self::SKIPPED);
        for (index, value) in self.values.iter().enumerate() {
            // SAFETY: attached. Each reference that was made or taken over is released once.
            unsafe {
                match value.kind {
                    Kind::BORROWED => {}
                    Kind::OWNED => Py_DECREF(value.as_object().cast()),
                    _ if index < done => Py_DECREF(*objects.add(index)),
                    _ => {}
                }
            }
        }
    }
}

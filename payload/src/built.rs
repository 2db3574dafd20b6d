//! Python objects of values that the host passes.

use crate::fault::Outcome;
use crate::reference::Ref;
use crate::table::{Kind, Leaf};
use crate::values::object_of;
use pyo3_ffi::{Py_DECREF, PyObject};
use std::mem::MaybeUninit;
use std::ptr;

/// The objects of values, one after the other. References that the values own are taken over, also those that nobody asks
/// for.
pub(crate) struct Taken<'a> {
    rest: &'a [Leaf],
}

impl<'a> Taken<'a> {
    /// # Safety
    ///
    /// The thread is attached until after the result is dropped. Views and objects in `leaves` are valid.
    pub(crate) unsafe fn new(leaves: &'a [Leaf]) -> Self {
        Self { rest: leaves }
    }

    /// The next one. The caller does not ask for more than there are.
    #[inline]
    pub(crate) fn next(&mut self) -> Outcome<Ref> {
        let (leaf, rest) = match self.rest {
            [leaf, rest @ ..] => (leaf, rest),
            [] => (&Leaf::new(Kind::NONE), self.rest),
        };
        self.rest = rest;
        // SAFETY: attached and valid, as `new` asks. An owned reference is taken over once: the leaf is behind.
        unsafe {
            match leaf.kind {
                Kind::BORROWED => Ref::borrowed(leaf.as_object().cast()),
                Kind::OWNED => Ref::owned(leaf.as_object().cast()),
                _ => object_of(leaf),
            }
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for leaf in self.rest.iter().filter(|leaf| leaf.kind == Kind::OWNED) {
            // SAFETY: attached; the reference was given to this, and not passed on.
            unsafe { Py_DECREF(leaf.as_object().cast()) };
        }
    }
}

/// So many objects fit on the stack.
const INLINE: usize = 14;

/// Objects of values in a row, for one call.
pub(crate) struct Built<'a> {
    leaves: &'a [Leaf],
    /// How many of them have an object.
    done: usize,
    inline: [MaybeUninit<*mut PyObject>; INLINE],
    /// All of them, if they do not fit.
    outside: Vec<*mut PyObject>,
}

impl<'a> Built<'a> {
    /// Places before the objects, for the caller's use.
    pub(crate) const SKIPPED: usize = 2;

    /// Makes none yet. The references that `leaves` own are taken over in every case.
    ///
    /// # Safety
    ///
    /// The thread is attached until after the result is dropped. Views and objects in `leaves` are valid.
    #[inline]
    pub(crate) unsafe fn new(leaves: &'a [Leaf]) -> Self {
        let places = Self::SKIPPED + leaves.len();
        let outside = match places <= INLINE {
            true => Vec::new(),
            false => vec![ptr::null_mut(); places],
        };
        Self { leaves, done: 0, inline: [const { MaybeUninit::uninit() }; INLINE], outside }
    }

    /// Makes them all, and returns the first place, of those that are skipped too.
    #[inline]
    pub(crate) fn make(&mut self) -> Outcome<*mut *mut PyObject> {
        let places = self.places();
        for leaf in self.leaves {
            // SAFETY: attached and valid, as `new` asks; there is a place for each.
            unsafe {
                let object = match leaf.kind {
                    Kind::BORROWED | Kind::OWNED => leaf.as_object().cast(),
                    _ => object_of(leaf)?.into_handle().cast(),
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

impl Drop for Built<'_> {
    fn drop(&mut self) {
        let done = self.done;
        let objects = self.places().wrapping_add(Self::SKIPPED);
        for (index, leaf) in self.leaves.iter().enumerate() {
            // SAFETY: attached. What was made or taken over is released once.
            unsafe {
                match leaf.kind {
                    Kind::BORROWED => {}
                    Kind::OWNED => Py_DECREF(leaf.as_object().cast()),
                    _ if index < done => Py_DECREF(*objects.add(index)),
                    _ => {}
                }
            }
        }
    }
}

//! Arguments of a call in the places of a host function's parameters.
//!
//! The rules are those of functions in Python (`initialize_locals`, Python/ceval.c). Arguments that do not fit are passed to a
//! function in Python with the same parameters, which says so.

use crate::api::fault::{Fault, Outcome};
use crate::api::reference::{Ref, done};
use pyo3_ffi::{
    PyDict_GetItemWithError, PyDict_New, PyDict_SetItem, PyErr_SetString, PyExc_TypeError,
    PyLong_AsSize_t, PyObject, PyObject_IsTrue, PyObject_Vectorcall, PyTuple_GetItem, PyTuple_Size,
    PyUnicode_Compare, PyUnicode_InternInPlace,
};
use std::ptr;

/// The parameters of a function.
pub(crate) struct Signature {
    /// Of positional parameters, then of keyword-only ones.
    parameters: Vec<Parameter>,
    positional_only: usize,
    positional: usize,
    /// Whether there is `*args`. Its place is behind the positional ones.
    takes_rest: bool,
    /// Whether there is `**kwargs`. Its place is the last one.
    takes_names: bool,
    /// A function in Python that has these parameters and does nothing.
    stand_in: Ref,
}

struct Parameter {
    /// An interned `str`.
    name: Ref,
    default: Option<Ref>,
}

/// So many arguments need no memory of their own.
const INLINE: usize = 12;

/// One argument for each parameter.
pub(crate) struct Bound {
    inline: [*mut PyObject; INLINE],
    /// All of them, if they do not fit.
    outside: Vec<*mut PyObject>,
    /// The tuple and the dict that were made for the call.
    _rest: Option<Ref>,
    names: Option<Ref>,
}

impl Bound {
    fn new(count: usize) -> Self {
        let outside = match count <= INLINE {
            true => Vec::new(),
            false => vec![ptr::null_mut(); count],
        };
        Self { inline: [ptr::null_mut(); INLINE], outside, _rest: None, names: None }
    }

    fn places(&mut self) -> &mut [*mut PyObject] {
        match self.outside.is_empty() {
            true => &mut self.inline,
            false => &mut self.outside,
        }
    }

    /// The first one.
    pub(crate) fn as_ptr(&mut self) -> *const *mut PyObject {
        self.places().as_ptr()
    }
}

impl Signature {
    /// Reads the parameters of `def f TEXT`; `name` is the qualified name in errors.
    ///
    /// # Safety
    ///
    /// Attached.
    pub(crate) unsafe fn read(text: &Ref, name: &Ref) -> Outcome<Self> {
        // SAFETY: attached; all objects are alive during the calls. `read` returns a tuple of seven, of which the first is
        // a tuple of `str` and the fourth a dict.
        unsafe {
            let module = Ref::import(c"_hydrozoa.signatures")?;
            let parts = module.call_method(c"read", [text.as_ptr(), name.as_ptr()])?;
            let part = |index| PyTuple_GetItem(parts.as_ptr(), index);
            let (names, defaults) = (part(0), part(3));
            let parameter = |index| {
                let mut name = Ref::borrowed(PyTuple_GetItem(names, index))?.into_handle().cast();
                PyUnicode_InternInPlace(&mut name);
                let name = Ref::owned(name)?;
                let default = PyDict_GetItemWithError(defaults, name.as_ptr());
                let default = (!default.is_null()).then(|| Ref::borrowed(default)).transpose()?;
                Ok(Parameter { name, default })
            };
            Ok(Self {
                parameters: (0..PyTuple_Size(names)).map(parameter).collect::<Outcome<_>>()?,
                positional_only: PyLong_AsSize_t(part(1)),
                positional: PyLong_AsSize_t(part(2)),
                takes_rest: PyObject_IsTrue(part(4)) == 1,
                takes_names: PyObject_IsTrue(part(5)) == 1,
                stand_in: Ref::borrowed(part(6))?,
            })
        }
    }

    /// The number of places.
    pub(crate) fn len(&self) -> usize {
        self.parameters.len() + usize::from(self.takes_rest) + usize::from(self.takes_names)
    }

    /// Whether so many positional arguments alone fill all places.
    pub(crate) fn is_filled_by(&self, count: usize) -> bool {
        count == self.positional && count == self.len()
    }

    /// Puts arguments in their places. Missing arguments get their defaults. Fails with a `TypeError`.
    ///
    /// # Safety
    ///
    /// Attached. There are `count` positional arguments, then one for each item of `names`, a tuple or null. They live longer
    /// than the result, as does `self`.
    pub(crate) unsafe fn bind(
        &self,
        arguments: *const *mut PyObject,
        count: usize,
        names: *mut PyObject,
    ) -> Outcome<Bound> {
        let mut bound = Bound::new(self.len());
        // SAFETY: by contract.
        unsafe {
            for index in 0..count.min(self.positional) {
                bound.places()[index] = *arguments.add(index);
            }
            if self.takes_rest {
                let rest = self.positional.min(count)..count;
                let rest = rest.map(|index| Ref::borrowed(*arguments.add(index)));
                let rest = Ref::tuple(rest.len(), rest)?;
                bound.places()[self.positional] = rest.as_ptr();
                bound._rest = Some(rest);
            }
            if self.takes_names {
                let names = Ref::owned(PyDict_New())?;
                bound.places()[self.len() - 1] = names.as_ptr();
                bound.names = Some(names);
            }
            if !names.is_null() {
                for index in 0..PyTuple_Size(names) {
                    let value = *arguments.add(count + index.unsigned_abs());
                    if !self.place(PyTuple_GetItem(names, index), value, &mut bound)? {
                        return Err(self.refused(arguments, count, names));
                    }
                }
            }
            let is_too_many = count > self.positional && !self.takes_rest;
            if is_too_many || !self.fill(&mut bound) {
                return Err(self.refused(arguments, count, names));
            }
        }
        Ok(bound)
    }

    /// The place of a parameter.
    fn place_of(&self, index: usize) -> usize {
        index + usize::from(self.takes_rest && index >= self.positional)
    }

    /// Puts one named argument in its place, if there is one and it is free.
    ///
    /// # Safety
    ///
    /// Attached, with live objects; `name` is a `str`.
    unsafe fn place(
        &self,
        name: *mut PyObject,
        value: *mut PyObject,
        bound: &mut Bound,
    ) -> Outcome<bool> {
        let named = &self.parameters[self.positional_only..];
        let same = |parameter: &Parameter| ptr::eq(parameter.name.as_ptr(), name);
        // SAFETY: attached; both are `str`.
        let equal = |parameter: &Parameter| unsafe {
            PyUnicode_Compare(parameter.name.as_ptr(), name) == 0
        };
        // CPython interns the names that stand in code.
        let found = named.iter().position(same).or_else(|| named.iter().position(equal));
        if let Some(index) = found {
            let place = &mut bound.places()[self.place_of(index + self.positional_only)];
            let is_free = place.is_null();
            *place = value;
            return Ok(is_free);
        }
        let Some(others) = &bound.names else { return Ok(false) };
        // SAFETY: attached, with live objects.
        done(unsafe { PyDict_SetItem(others.as_ptr(), name, value) }).map(|()| true)
    }

    /// Has the parameters that nothing was given for get their defaults. False if one has none.
    fn fill(&self, bound: &mut Bound) -> bool {
        self.parameters.iter().enumerate().all(|(index, parameter)| {
            let place = &mut bound.places()[self.place_of(index)];
            if let Some(default) = parameter.default.as_ref().filter(|_| place.is_null()) {
                *place = default.as_ptr();
            }
            !place.is_null()
        })
    }

    /// Has Python raise its `TypeError` about arguments that do not fit.
    ///
    /// # Safety
    ///
    /// As for [`Signature::bind`].
    #[cold]
    unsafe fn refused(
        &self,
        arguments: *const *mut PyObject,
        count: usize,
        names: *mut PyObject,
    ) -> Fault {
        // SAFETY: by contract.
        unsafe {
            let none = PyObject_Vectorcall(self.stand_in.as_ptr(), arguments, count, names);
            if Ref::owned(none).is_ok() {
                PyErr_SetString(PyExc_TypeError, c"the arguments do not fit".as_ptr());
            }
        }
        Fault::Raised
    }
}

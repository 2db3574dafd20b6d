//! Arguments of a call in the places of a host function's parameters.
//!
//! The rules and the texts of errors are those of functions in Python (`initialize_locals`, Python/ceval.c).

use crate::fault::{Fault, Outcome};
use crate::reference::Ref;
use pyo3_ffi::{
    PyDict_GetItemWithError, PyDict_New, PyDict_SetItem, PyErr_Occurred, PyErr_SetObject,
    PyExc_TypeError, PyImport_ImportModule, PyLong_AsSize_t, PyObject,
    PyObject_CallFunctionObjArgs, PyObject_GetAttrString, PyObject_IsTrue, PyTuple_GetItem,
    PyTuple_New, PyTuple_SetItem, PyTuple_Size, PyUnicode_AsUTF8AndSize, PyUnicode_Compare,
    PyUnicode_InternInPlace,
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
    /// Reads the parameters of `def f TEXT`.
    ///
    /// # Safety
    ///
    /// Attached.
    pub(crate) unsafe fn read(text: &Ref) -> Outcome<Self> {
        // SAFETY: attached; all objects are alive during the calls. `read` returns a tuple of six, of which the first is
        // a tuple of `str` and the fourth a dict.
        unsafe {
            let module = Ref::owned(PyImport_ImportModule(c"_hydrozoa.signatures".as_ptr()))?;
            let read = Ref::owned(PyObject_GetAttrString(module.as_ptr(), c"read".as_ptr()))?;
            let end = ptr::null_mut::<PyObject>();
            let parts =
                Ref::owned(PyObject_CallFunctionObjArgs(read.as_ptr(), text.as_ptr(), end))?;
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

    /// Puts arguments in their places. What is not given gets its default. Fails with a `TypeError`.
    ///
    /// # Safety
    ///
    /// Attached. There are `count` positional arguments, then one for each item of `names`, a tuple or null. They live longer
    /// than the result, as does `self`.
    pub(crate) unsafe fn bind(
        &self,
        function: &Ref,
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
                let rest = rest(arguments, self.positional.min(count), count)?;
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
                    self.place(function, names, PyTuple_GetItem(names, index), value, &mut bound)?;
                }
            }
            if count > self.positional && !self.takes_rest {
                return Err(self.too_many(function, count, &mut bound));
            }
        }
        self.fill(function, 0..self.positional, "positional", &mut bound)?;
        self.fill(function, self.positional..self.parameters.len(), "keyword-only", &mut bound)?;
        Ok(bound)
    }

    /// The place of a parameter.
    fn place_of(&self, index: usize) -> usize {
        index + usize::from(self.takes_rest && index >= self.positional)
    }

    /// Puts one named argument in its place.
    ///
    /// # Safety
    ///
    /// Attached, with live objects: `name` is a `str`, and an item of the tuple `names`.
    unsafe fn place(
        &self,
        function: &Ref,
        names: *mut PyObject,
        name: *mut PyObject,
        value: *mut PyObject,
        bound: &mut Bound,
    ) -> Outcome<()> {
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
            if !place.is_null() {
                let name = quoted(&named[index].name);
                return Err(raise(function, &format!("got multiple values for argument {name}")));
            }
            *place = value;
            return Ok(());
        }
        if let Some(others) = &bound.names {
            // SAFETY: attached, with live objects.
            return match unsafe { PyDict_SetItem(others.as_ptr(), name, value) } {
                0 => Ok(()),
                _ => Err(Fault::Raised),
            };
        }
        // SAFETY: as above.
        Err(unsafe { self.unknown(function, names, name) })
    }

    /// Has the parameters that nothing was given for get their defaults.
    fn fill(
        &self,
        function: &Ref,
        range: std::ops::Range<usize>,
        kind: &str,
        bound: &mut Bound,
    ) -> Outcome<()> {
        let mut missing = Vec::new();
        for index in range {
            let parameter = &self.parameters[index];
            let place = &mut bound.places()[self.place_of(index)];
            match &parameter.default {
                _ if !place.is_null() => {}
                Some(default) => *place = default.as_ptr(),
                None => missing.push(quoted(&parameter.name)),
            }
        }
        let names = match &*missing {
            [] => return Ok(()),
            [one] => one.clone(),
            [one, other] => format!("{one} and {other}"),
            [first @ .., last] => format!("{}, and {last}", first.join(", ")),
        };
        let (count, plural) = (missing.len(), plural(missing.len()));
        Err(raise(function, &format!("missing {count} required {kind} argument{plural}: {names}")))
    }

    /// # Safety
    ///
    /// As for [`Signature::place`].
    #[cold]
    unsafe fn unknown(&self, function: &Ref, names: *mut PyObject, name: *mut PyObject) -> Fault {
        let positional_only = &self.parameters[..self.positional_only];
        // SAFETY: attached; the items of the tuple are alive, and `str`.
        let is_given = |parameter: &&Parameter| unsafe {
            (0..PyTuple_Size(names)).any(|index| {
                PyUnicode_Compare(PyTuple_GetItem(names, index), parameter.name.as_ptr()) == 0
            })
        };
        let given: Vec<String> =
            positional_only.iter().filter(is_given).map(|one| text(&one.name)).collect();
        if !given.is_empty() {
            let what = "got some positional-only arguments passed as keyword arguments";
            return raise(function, &format!("{what}: '{}'", given.join(", ")));
        }
        // SAFETY: attached, and the name is alive.
        match unsafe { Ref::borrowed(name) } {
            Ok(name) => {
                raise(function, &format!("got an unexpected keyword argument {}", quoted(&name)))
            }
            Err(fault) => fault,
        }
    }

    #[cold]
    fn too_many(&self, function: &Ref, given: usize, bound: &mut Bound) -> Fault {
        let (positional, keyword_only) = self.parameters.split_at(self.positional);
        let required = positional.iter().filter(|one| one.default.is_none()).count();
        let takes = match required == self.positional {
            true => format!("{required} positional argument{}", plural(required)),
            false => format!("from {required} to {} positional arguments", self.positional),
        };
        let places = (0..keyword_only.len()).map(|index| self.place_of(self.positional + index));
        let named = places.filter(|&place| !bound.places()[place].is_null()).count();
        let given = match named {
            0 if given == 1 => "1 was".to_owned(),
            0 => format!("{given} were"),
            _ => format!(
                "{given} positional argument{} (and {named} keyword-only argument{}) were",
                plural(given),
                plural(named)
            ),
        };
        raise(function, &format!("takes {takes} but {given} given"))
    }
}

/// The arguments in a range as a tuple.
///
/// # Safety
///
/// Attached; the arguments are alive.
unsafe fn rest(arguments: *const *mut PyObject, from: usize, to: usize) -> Outcome<Ref> {
    // SAFETY: by contract; the tuple is new, and takes each reference over.
    unsafe {
        let tuple = Ref::owned(PyTuple_New((to - from).cast_signed()))?;
        for index in from..to {
            let item = Ref::borrowed(*arguments.add(index))?.into_handle().cast();
            if PyTuple_SetItem(tuple.as_ptr(), (index - from).cast_signed(), item) != 0 {
                return Err(Fault::Raised);
            }
        }
        Ok(tuple)
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The text of a `str`, which may have lone surrogates in a name that a caller has made up.
fn text(object: &Ref) -> String {
    let mut len = 0;
    // SAFETY: references are only used by attached threads. The view is copied while the object lives.
    unsafe {
        let data = PyUnicode_AsUTF8AndSize(object.as_ptr(), &mut len);
        if data.is_null() {
            pyo3_ffi::PyErr_Clear();
            return "?".to_owned();
        }
        let bytes = std::slice::from_raw_parts(data.cast::<u8>(), len.unsigned_abs());
        String::from_utf8_lossy(bytes).into_owned()
    }
}

fn quoted(object: &Ref) -> String {
    format!("'{}'", text(object))
}

/// Raises a `TypeError` about a call of `function`, a `str`.
#[cold]
fn raise(function: &Ref, what: &str) -> Fault {
    let message = format!("{}() {what}", text(function));
    // SAFETY: references are only used by attached threads.
    unsafe {
        if PyErr_Occurred().is_null()
            && let Ok(message) = Ref::text(message.as_bytes())
        {
            PyErr_SetObject(PyExc_TypeError, message.as_ptr());
        }
    }
    Fault::Raised
}

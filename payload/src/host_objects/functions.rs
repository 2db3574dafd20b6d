//! Host functions as Python callables.

use crate::api::carriers::{CarrierType, Lent, carried, offset_of_carried};
use crate::api::fault::Outcome;
use crate::api::reference::{Ref, done};
use crate::exceptions::report::returning;
use crate::host_objects::signature::Signature;
use crate::table::{Callback, Definition, Handle, Status, Text};
use crate::threads;
use pyo3_ffi::{
    Py_INCREF, Py_None, Py_READONLY, Py_T_PYSSIZET, Py_TPFLAGS_HAVE_VECTORCALL,
    Py_TPFLAGS_METHOD_DESCRIPTOR, Py_tp_call, Py_tp_descr_get, Py_tp_getset, Py_tp_members,
    Py_tp_repr, PyDescr_NewGetSet, PyErr_Occurred, PyErr_SetNone, PyErr_SetString,
    PyExc_SystemError, PyExc_SystemExit, PyGetSetDef, PyMemberDef, PyObject,
    PyObject_SetAttrString, PyThreadState_Get, PyUnicode_FromFormat, PyVectorcall_Call,
    PyVectorcall_NARGS, vectorcallfunc,
};
use std::ffi::{CStr, c_void};
use std::mem::offset_of;
use std::ptr;

unsafe extern "C" {
    /// In CPython's `Include/cpython/classobject.h` in all versions; pyo3-ffi lacks it.
    fn PyMethod_New(function: *mut PyObject, instance: *mut PyObject) -> *mut PyObject;
}

/// The host's function behind a callable.
#[repr(C)]
struct Function {
    /// The function that CPython calls (PEP 590).
    vectorcall: vectorcallfunc,
    callback: Callback,
    name: Ref,
    qualified_name: Ref,
    module: Ref,
    doc: Ref,
    /// The signature's text, or None.
    text: Ref,
    signature: Option<Signature>,
    _lent: Lent,
}

/// See [`crate::table::PayloadTable::function`].
pub(crate) unsafe extern "C" fn function(
    definition: *const Definition,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    static FUNCTION: CarrierType = CarrierType::with_flags(Py_TPFLAGS_HAVE_VECTORCALL);
    static METHOD: CarrierType =
        CarrierType::with_flags(Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR);
    // SAFETY: the host is attached, and passes a valid definition and place.
    unsafe {
        let definition = *definition;
        // From here on the callback is dropped in every case.
        let lent = Lent { context: definition.callback.context, drop: definition.callback.drop };
        returning(out, sink, move || {
            let function = Function::new(&definition, lent)?;
            match definition.binds {
                0 => make(&FUNCTION, c"_hydrozoa.Function", itself as *mut c_void, function),
                _ => make(&METHOD, c"_hydrozoa.Method", bind as *mut c_void, function),
            }
        })
    }
}

impl Function {
    /// # Safety
    ///
    /// Attached; the definition's views are valid.
    unsafe fn new(definition: &Definition, lent: Lent) -> Outcome<Self> {
        // SAFETY: by contract.
        unsafe {
            let text = optional(definition.signature)?;
            let qualified_name = Ref::text(definition.qualified_name.bytes())?;
            let signature = match definition.signature.len {
                0 => None,
                _ => Some(Signature::read(&text, &qualified_name)?),
            };
            Ok(Self {
                vectorcall: call,
                callback: definition.callback,
                name: Ref::text(definition.name.bytes())?,
                qualified_name,
                module: optional(definition.module)?,
                doc: optional(definition.doc)?,
                text,
                signature,
                _lent: lent,
            })
        }
    }
}

/// A `str`, or None for an empty text.
///
/// # Safety
///
/// Attached; the view is valid.
unsafe fn optional(text: Text) -> Outcome<Ref> {
    // SAFETY: by contract.
    unsafe {
        match text.len {
            0 => Ref::borrowed(Py_None()),
            _ => Ref::text(text.bytes()),
        }
    }
}

/// # Safety
///
/// Attached. `kind` has the flags that fit `descriptor`, a `descrgetfunc`.
unsafe fn make(
    kind: &CarrierType,
    name: &'static CStr,
    descriptor: *mut c_void,
    function: Function,
) -> Outcome<Ref> {
    let is_new = kind.made().is_none();
    let slots = [
        (Py_tp_call, PyVectorcall_Call as *mut c_void),
        (Py_tp_members, (&raw mut MEMBERS).cast()),
        (Py_tp_repr, represent as *mut c_void),
        (Py_tp_getset, (&raw mut ATTRIBUTES).cast()),
        (Py_tp_descr_get, descriptor),
    ];
    // SAFETY: attached; all objects of both types hold a `Function`, and the slots fit it.
    unsafe {
        let made = kind.make(name, &slots, function)?;
        if let Some(kind) = kind.made().filter(|_| is_new) {
            // PyType_FromSpec has put the type's own module in its place.
            let module = Ref::owned(PyDescr_NewGetSet(kind, (&raw mut MODULE).cast()))?;
            let name = c"__module__".as_ptr();
            done(PyObject_SetAttrString(kind.cast(), name, module.as_ptr()))?;
        }
        Ok(made)
    }
}

/// Where an object has its function for calls, and the end of the list. CPython wants a mutable list, and does not change it.
static mut MEMBERS: [PyMemberDef; 2] = [
    PyMemberDef {
        name: c"__vectorcalloffset__".as_ptr(),
        type_code: Py_T_PYSSIZET,
        offset: offset_of_carried::<Function>() as isize
            + offset_of!(Function, vectorcall) as isize,
        flags: Py_READONLY,
        doc: ptr::null(),
    },
    // SAFETY: null pointers and zeroes end the list.
    unsafe { std::mem::zeroed() },
];

/// The attributes and the end of the list. CPython wants a mutable list, and does not change it.
static mut ATTRIBUTES: [PyGetSetDef; 5] = [
    attribute(c"__name__", offset_of!(Function, name)),
    attribute(c"__qualname__", offset_of!(Function, qualified_name)),
    attribute(c"__doc__", offset_of!(Function, doc)),
    attribute(c"__text_signature__", offset_of!(Function, text)),
    PyGetSetDef {
        name: ptr::null(),
        get: None,
        set: None,
        doc: ptr::null(),
        closure: ptr::null_mut(),
    },
];

/// Set when the type is made.
static mut MODULE: PyGetSetDef = attribute(c"__module__", offset_of!(Function, module));

/// An attribute whose value is a [`Ref`] at an offset in [`Function`].
const fn attribute(name: &'static CStr, offset: usize) -> PyGetSetDef {
    PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: None,
        doc: ptr::null(),
        closure: ptr::without_provenance_mut(offset),
    }
}

unsafe extern "C" fn get(function: *mut PyObject, offset: *mut c_void) -> *mut PyObject {
    // SAFETY: called attached, on an object of the types above, with the offset of a `Ref` in it.
    unsafe {
        let function: *const Function = carried::<Function>(function);
        let field = &*function.byte_add(offset.addr()).cast::<Ref>();
        new_reference(field.as_ptr())
    }
}

unsafe extern "C" fn represent(function: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached, on an object of the types above; `%R` takes an object.
    unsafe {
        let name = carried::<Function>(function).qualified_name.as_ptr();
        PyUnicode_FromFormat(c"<host function %R>".as_ptr(), name)
    }
}

/// `__get__` of a function that is not a method. `inspect` takes an object with one for a function of C, and reads
/// `__text_signature__`.
unsafe extern "C" fn itself(
    function: *mut PyObject,
    _: *mut PyObject,
    _: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, on a live object.
    unsafe { new_reference(function) }
}

/// `__get__` of a method.
unsafe extern "C" fn bind(
    function: *mut PyObject,
    instance: *mut PyObject,
    _: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, on live objects; the instance is null for a look-up in the class.
    unsafe {
        match instance.is_null() || instance == Py_None() {
            true => new_reference(function),
            false => PyMethod_New(function, instance),
        }
    }
}

unsafe extern "C" fn call(
    object: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, on an object of the types above, with live arguments.
    unsafe {
        let function = carried::<Function>(object);
        let count = PyVectorcall_NARGS(count).cast_unsigned();
        match &function.signature {
            Some(signature) if !(names.is_null() && signature.is_filled_by(count)) => {
                match signature.bind(arguments, count, names) {
                    Ok(mut bound) => {
                        let count = signature.len();
                        call_host(function.callback, bound.as_ptr(), count, ptr::null_mut())
                    }
                    Err(_) => ptr::null_mut(),
                }
            }
            _ => call_host(function.callback, arguments, count, names),
        }
    }
}

/// # Safety
///
/// Attached. The arguments are as [`Callback::call`] says.
#[inline]
unsafe fn call_host(
    callback: Callback,
    arguments: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe {
        let result = (callback.call)(callback.context, arguments.cast(), count, names.cast());
        if result.is_null() && PyErr_Occurred().is_null() {
            refused();
        }
        result.cast()
    }
}

/// The interpreter is ending. A daemon thread that says so while the interpreter closes `sys.stderr` would end the process
/// (`_enter_buffered_busy` in Modules/_io/bufferedio.c). So threads end without a word, as CPython ends them when they ask
/// for the GIL after that (Doc/c-api/init.rst), and the thread that ends the interpreter gets an error.
///
/// # Safety
///
/// Attached.
#[cold]
unsafe fn refused() {
    // SAFETY: attached.
    unsafe {
        if threads::is_main(PyThreadState_Get()) {
            let reason = c"the host function could not be called: the interpreter is ending";
            PyErr_SetString(PyExc_SystemError, reason.as_ptr());
        } else {
            PyErr_SetNone(PyExc_SystemExit);
        }
    }
}

/// # Safety
///
/// Attached, and the object is alive.
unsafe fn new_reference(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe { Py_INCREF(object) };
    object
}

//! Plain values: None, bool, int, float, str, bytes, and the three containers.

use crate::fault::{Fault, Outcome};
use crate::reference::Ref;
use crate::report::{Raised, guarded};
use crate::table::{Handle, Kind, Leaf, Status, Text};
use pyo3_ffi::{
    Py_False, Py_None, Py_True, PyBool_Check, PyByteArray_AsString, PyByteArray_Check,
    PyByteArray_Size, PyBytes_AsString, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_Size,
    PyDict_Check, PyDict_New, PyDict_Next, PyDict_SetItem, PyDict_Size, PyErr_Occurred,
    PyFloat_AsDouble, PyFloat_Check, PyFloat_FromDouble, PyList_Check, PyList_GetItem, PyList_New,
    PyList_SetItem, PyList_Size, PyLong_AsLongLongAndOverflow, PyLong_AsSize_t, PyLong_Check,
    PyLong_FromLongLong, PyLong_FromSize_t, PyLong_Type, PyObject, PyObject_GetAttrString,
    PyObject_Vectorcall, PyTuple_Check, PyTuple_GetItem, PyTuple_New, PyTuple_SetItem,
    PyTuple_Size, PyUnicode_AsUTF8AndSize, PyUnicode_Check,
};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

/// See [`crate::table::PayloadTable::build`].
pub(crate) unsafe extern "C" fn build(
    leaf: *const Leaf,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a valid leaf and place.
    unsafe {
        guarded(sink, || {
            *out = object_of(&*leaf)?.into_handle();
            Ok(())
        })
    }
}

/// # Safety
///
/// The thread is attached, and the leaf's views are valid.
unsafe fn object_of(leaf: &Leaf) -> Outcome<Ref> {
    // SAFETY: by contract.
    unsafe {
        let bytes = leaf.data.bytes();
        match leaf.kind {
            Kind::NONE => Ref::borrowed(Py_None()),
            Kind::BOOL if leaf.integer == 0 => Ref::borrowed(Py_False()),
            Kind::BOOL => Ref::borrowed(Py_True()),
            Kind::INT => Ref::owned(PyLong_FromLongLong(leaf.integer)),
            Kind::BIG_INT => {
                let bytes = bytes_object(bytes)?;
                int_method(c"from_bytes", bytes.as_ptr(), None)
            }
            Kind::FLOAT => Ref::owned(PyFloat_FromDouble(leaf.float)),
            Kind::STR => Ref::text(bytes),
            Kind::BYTES => bytes_object(bytes),
            _ => Err(Fault::Conversion {
                expected: "a plain value",
                reason: "a leaf of this kind builds nothing".to_owned(),
            }),
        }
    }
}

/// # Safety
///
/// The thread is attached.
unsafe fn bytes_object(bytes: &[u8]) -> Outcome<Ref> {
    // SAFETY: attached, and the bytes are readable.
    unsafe { Ref::owned(PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize)) }
}

/// `int.from_bytes(first, "little", signed=True)`, or `int.to_bytes(first, len, …)`. All versions have
/// this public way to an integer's digits, and subclasses do not change it.
///
/// # Safety
///
/// The thread is attached, and `first` alive.
unsafe fn int_method(name: &CStr, first: *mut PyObject, len: Option<usize>) -> Outcome<Ref> {
    // SAFETY: attached; all objects are alive during the call.
    unsafe {
        let method =
            Ref::owned(PyObject_GetAttrString((&raw mut PyLong_Type).cast(), name.as_ptr()))?;
        let len = len.map(|len| Ref::owned(PyLong_FromSize_t(len))).transpose()?;
        let order = Ref::text(b"little")?;
        let signed = Ref::owned(PyTuple_New(1))?;
        // The tuple takes the reference over.
        PyTuple_SetItem(signed.as_ptr(), 0, Ref::text(b"signed")?.into_handle().cast());
        let arguments: Vec<*mut PyObject> = [first]
            .into_iter()
            .chain(len.as_ref().map(Ref::as_ptr))
            .chain([order.as_ptr(), Py_True()])
            .collect();
        Ref::owned(PyObject_Vectorcall(
            method.as_ptr(),
            arguments.as_ptr(),
            arguments.len() - 1,
            signed.as_ptr(),
        ))
    }
}

/// See [`crate::table::PayloadTable::inspect`].
pub(crate) unsafe extern "C" fn inspect(
    object: Handle,
    out: *mut Leaf,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe {
        guarded(sink, || {
            *out = leaf_of(object.cast())?;
            Ok(())
        })
    }
}

/// # Safety
///
/// The thread is attached, and the object is alive.
unsafe fn leaf_of(object: *mut PyObject) -> Outcome<Leaf> {
    // SAFETY: by contract; each accessor follows the check of its type.
    unsafe {
        let kind = kind_of(object);
        let mut leaf = Leaf::new(kind);
        match kind {
            Kind::BOOL => leaf.integer = i64::from(object == Py_True()),
            Kind::INT => {
                let mut overflow: c_int = 0;
                leaf.integer = PyLong_AsLongLongAndOverflow(object, &mut overflow);
                if overflow != 0 {
                    leaf = digits(object)?;
                }
            }
            Kind::FLOAT => leaf.float = PyFloat_AsDouble(object),
            Kind::STR => {
                let mut len = 0;
                let data = PyUnicode_AsUTF8AndSize(object, &mut len);
                if data.is_null() {
                    return Err(Fault::Conversion {
                        expected: "UTF-8 text",
                        reason: Raised::take().message,
                    });
                }
                leaf.data = view(data.cast(), len);
            }
            Kind::BYTES => {
                leaf.data = view(PyBytes_AsString(object).cast(), PyBytes_Size(object));
            }
            Kind::BYTE_ARRAY => {
                leaf.data = view(PyByteArray_AsString(object).cast(), PyByteArray_Size(object));
            }
            Kind::LIST => leaf.data = view(ptr::null(), PyList_Size(object)),
            Kind::TUPLE => leaf.data = view(ptr::null(), PyTuple_Size(object)),
            Kind::DICT => leaf.data = view(ptr::null(), PyDict_Size(object)),
            _ => {}
        }
        Ok(leaf)
    }
}

fn view(data: *const u8, len: isize) -> Text {
    Text { data, len: len.unsigned_abs() }
}

/// # Safety
///
/// The thread is attached, and the object is alive.
unsafe fn kind_of(object: *mut PyObject) -> Kind {
    // SAFETY: by contract; a check only looks at the type. `bool` is a subclass of `int`,
    // so it comes first.
    unsafe {
        if object == Py_None() {
            Kind::NONE
        } else if PyBool_Check(object) != 0 {
            Kind::BOOL
        } else if PyLong_Check(object) != 0 {
            Kind::INT
        } else if PyFloat_Check(object) != 0 {
            Kind::FLOAT
        } else if PyUnicode_Check(object) != 0 {
            Kind::STR
        } else if PyBytes_Check(object) != 0 {
            Kind::BYTES
        } else if PyList_Check(object) != 0 {
            Kind::LIST
        } else if PyTuple_Check(object) != 0 {
            Kind::TUPLE
        } else if PyDict_Check(object) != 0 {
            Kind::DICT
        } else if PyByteArray_Check(object) != 0 {
            Kind::BYTE_ARRAY
        } else {
            Kind::OTHER
        }
    }
}

/// An integer that needs more than 64 bits.
///
/// # Safety
///
/// The thread is attached, and the object an `int`.
unsafe fn digits(object: *mut PyObject) -> Outcome<Leaf> {
    // SAFETY: attached; all objects are alive during the calls.
    unsafe {
        let count = Ref::owned(PyObject_GetAttrString(
            (&raw mut PyLong_Type).cast(),
            c"bit_length".as_ptr(),
        ))?;
        let bits =
            Ref::owned(PyObject_Vectorcall(count.as_ptr(), &raw const object, 1, ptr::null_mut()))?;
        // One bit more for the sign.
        let len = PyLong_AsSize_t(bits.as_ptr()) / 8 + 1;
        if !PyErr_Occurred().is_null() {
            return Err(Fault::Raised);
        }
        let bytes = int_method(c"to_bytes", object, Some(len))?;
        Ok(Leaf {
            data: view(PyBytes_AsString(bytes.as_ptr()).cast(), PyBytes_Size(bytes.as_ptr())),
            owner: bytes.into_handle(),
            ..Leaf::new(Kind::BIG_INT)
        })
    }
}

/// See [`crate::table::PayloadTable::gather`].
pub(crate) unsafe extern "C" fn gather(
    kind: Kind,
    items: *const Handle,
    len: usize,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes as many live objects as it says.
    unsafe {
        guarded(sink, || {
            let item = |index: usize| Ref::borrowed((*items.add(index)).cast());
            let container = match kind {
                Kind::LIST => {
                    let list = Ref::owned(PyList_New(len as isize))?;
                    for index in 0..len {
                        // The list takes the reference over.
                        let item = item(index)?.into_handle().cast();
                        PyList_SetItem(list.as_ptr(), index as isize, item);
                    }
                    list
                }
                Kind::TUPLE => {
                    let tuple = Ref::owned(PyTuple_New(len as isize))?;
                    for index in 0..len {
                        // The tuple takes the reference over.
                        let item = item(index)?.into_handle().cast();
                        PyTuple_SetItem(tuple.as_ptr(), index as isize, item);
                    }
                    tuple
                }
                _ => {
                    let dict = Ref::owned(PyDict_New())?;
                    for index in 0..len {
                        let (key, value) = (item(2 * index)?, item(2 * index + 1)?);
                        if PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) != 0 {
                            return Err(Fault::Raised);
                        }
                    }
                    dict
                }
            };
            *out = container.into_handle();
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::scatter`].
pub(crate) unsafe extern "C" fn scatter(
    container: Handle,
    items: *mut Handle,
    len: usize,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and room for `len` items or pairs.
    unsafe {
        guarded(sink, || {
            let container: *mut PyObject = container.cast();
            let kind = kind_of(container);
            let found = match kind {
                Kind::LIST => PyList_Size(container),
                Kind::TUPLE => PyTuple_Size(container),
                Kind::DICT => PyDict_Size(container),
                _ => -1,
            };
            if usize::try_from(found) != Ok(len) {
                return Err(Fault::Conversion {
                    expected: "a container of the length it had",
                    reason: format!("its length was {len} and is {found}"),
                });
            }
            // From here on no Python code runs, so the length does not change.
            if kind == Kind::DICT {
                let (mut position, mut index) = (0, 0);
                let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
                while PyDict_Next(container, &mut position, &mut key, &mut value) != 0 {
                    *items.add(index) = Ref::borrowed(key)?.into_handle();
                    *items.add(index + 1) = Ref::borrowed(value)?.into_handle();
                    index += 2;
                }
            } else {
                for index in 0..len {
                    let item = match kind {
                        Kind::LIST => PyList_GetItem(container, index as isize),
                        _ => PyTuple_GetItem(container, index as isize),
                    };
                    *items.add(index) = Ref::borrowed(item)?.into_handle();
                }
            }
            Ok(())
        })
    }
}

//! Plain values: None, bool, int, float, str, bytes, and the three containers.

use crate::api::fault::{Fault, Outcome};
use crate::api::reference::{Ref, done};
use crate::exceptions::report::{self, Raised, guarded, returning};
use crate::table::{Handle, Kind, Status, TaggedValue};
use crate::values::arguments::ItemObjects;
use pyo3_ffi::{
    Py_False, Py_None, Py_TYPE, Py_True, PyBool_Check, PyByteArray_AsString, PyByteArray_Check,
    PyByteArray_Size, PyBytes_AsString, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_Size,
    PyDict_Check, PyDict_New, PyDict_Next, PyDict_SetItem, PyDict_Size, PyErr_Occurred,
    PyFloat_AsDouble, PyFloat_Check, PyFloat_FromDouble, PyFloat_Type, PyList_Check,
    PyList_GET_ITEM, PyList_New, PyList_SET_ITEM, PyList_Size, PyLong_AsLongLongAndOverflow,
    PyLong_AsSize_t, PyLong_Check, PyLong_FromLongLong, PyLong_FromSize_t, PyLong_Type, PyObject,
    PyObject_Vectorcall, PyTuple_Check, PyTuple_GET_ITEM, PyTuple_New, PyTuple_SET_ITEM,
    PyTuple_Size, PyUnicode_AsUTF8AndSize, PyUnicode_Check, PyUnicode_Type,
};
use std::ffi::{CStr, c_int, c_void};
use std::{ptr, slice};

/// See [`crate::table::PayloadTable::build`].
pub(crate) unsafe extern "C" fn build(
    value: *const TaggedValue,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a valid value and place.
    unsafe { returning(out, sink, || object_of(&*value)) }
}

/// # Safety
///
/// The thread is attached, and the value's views are valid.
#[inline]
pub(crate) unsafe fn object_of(value: &TaggedValue) -> Outcome<Ref> {
    // SAFETY: by contract; the kinds with a view are those whose bytes are asked for.
    unsafe {
        match value.kind {
            Kind::NONE => Ref::borrowed(Py_None()),
            Kind::BOOL if value.as_integer() == 0 => Ref::borrowed(Py_False()),
            Kind::BOOL => Ref::borrowed(Py_True()),
            Kind::INT => Ref::owned(PyLong_FromLongLong(value.as_integer())),
            Kind::BIG_INT => {
                let bytes = bytes_object(value.bytes())?;
                int_method(c"from_bytes", bytes.as_ptr(), None)
            }
            Kind::FLOAT => Ref::owned(PyFloat_FromDouble(value.as_float())),
            Kind::STR => Ref::text(value.bytes()),
            Kind::BYTES => bytes_object(value.bytes()),
            _ => Err(Fault::Conversion {
                expected: "a plain value",
                reason: "a value of this kind builds nothing".to_owned(),
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
        let method = Ref::borrowed((&raw mut PyLong_Type).cast())?.attribute(name)?;
        let len = len.map(|len| Ref::owned(PyLong_FromSize_t(len))).transpose()?;
        let order = Ref::text(b"little")?;
        let signed = Ref::tuple(1, std::iter::once(Ref::text(b"signed")))?;
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
    out: *mut TaggedValue,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe {
        match tagged_value_of(object.cast()) {
            Ok(value) => {
                *out = value;
                Status::DONE
            }
            Err(fault) => report::failed(sink, fault),
        }
    }
}

/// # Safety
///
/// The thread is attached, and the object is alive.
#[inline]
unsafe fn tagged_value_of(object: *mut PyObject) -> Outcome<TaggedValue> {
    // SAFETY: by contract; each accessor follows the check of its type.
    unsafe {
        let kind = kind_of(object);
        let mut value = TaggedValue::new(kind);
        match kind {
            Kind::BOOL => value = TaggedValue::integer(kind, i64::from(object == Py_True())),
            Kind::INT => {
                let mut overflow: c_int = 0;
                let number = PyLong_AsLongLongAndOverflow(object, &mut overflow);
                value = match overflow {
                    0 => TaggedValue::integer(kind, number),
                    _ => TaggedValue::new(Kind::BIG_INT),
                };
            }
            Kind::FLOAT => value = TaggedValue::float(PyFloat_AsDouble(object)),
            Kind::STR => {
                let mut len = 0;
                let data = PyUnicode_AsUTF8AndSize(object, &mut len);
                if data.is_null() {
                    return Err(Fault::Conversion {
                        expected: "UTF-8 text",
                        reason: Raised::take().message,
                    });
                }
                value = view(kind, data.cast(), len);
            }
            Kind::BYTES => {
                value = view(kind, PyBytes_AsString(object).cast(), PyBytes_Size(object));
            }
            Kind::BYTE_ARRAY => {
                value = view(kind, PyByteArray_AsString(object).cast(), PyByteArray_Size(object));
            }
            Kind::LIST => value.len = PyList_Size(object).unsigned_abs(),
            Kind::TUPLE => value.len = PyTuple_Size(object).unsigned_abs(),
            Kind::DICT => value.len = PyDict_Size(object).unsigned_abs(),
            _ => {}
        }
        Ok(value)
    }
}

fn view(kind: Kind, data: *const u8, len: isize) -> TaggedValue {
    TaggedValue { kind, word: data.expose_provenance() as u64, len: len.unsigned_abs() }
}

/// # Safety
///
/// The thread is attached, and the object is alive.
unsafe fn kind_of(object: *mut PyObject) -> Kind {
    // SAFETY: by contract; a check only looks at the type. `bool` is a subclass of `int`,
    // so it comes first.
    unsafe {
        // Most are of these very types.
        let own = Py_TYPE(object);
        if own == &raw mut PyFloat_Type {
            return Kind::FLOAT;
        } else if own == &raw mut PyLong_Type {
            return Kind::INT;
        } else if own == &raw mut PyUnicode_Type {
            return Kind::STR;
        }
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

/// See [`crate::table::PayloadTable::digits`].
pub(crate) unsafe extern "C" fn digits(
    object: Handle,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live `int` and a valid place; all objects are alive during the calls.
    unsafe {
        returning(out, sink, || {
            let int = Ref::borrowed((&raw mut PyLong_Type).cast())?;
            let bits = int.attribute(c"bit_length")?.call(&[object.cast()])?;
            // One bit more for the sign.
            let len = PyLong_AsSize_t(bits.as_ptr()) / 8 + 1;
            if !PyErr_Occurred().is_null() {
                return Err(Fault::Raised);
            }
            int_method(c"to_bytes", object.cast(), Some(len))
        })
    }
}

/// See [`crate::table::PayloadTable::gather`].
pub(crate) unsafe extern "C" fn gather(
    kind: Kind,
    items: *const TaggedValue,
    len: usize,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes as many valid values as it says.
    unsafe {
        returning(out, sink, || {
            let count = if kind == Kind::DICT { 2 * len } else { len };
            let mut items = ItemObjects::new(slice::from_raw_parts(items, count));
            if kind == Kind::DICT {
                let dict = Ref::owned(PyDict_New())?;
                for _ in 0..len {
                    let (key, value) = (items.next()?, items.next()?);
                    done(PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()))?;
                }
                return Ok(dict);
            }
            let is_list = kind == Kind::LIST;
            let new = if is_list { PyList_New } else { PyTuple_New };
            let container = Ref::owned(new(len as isize))?;
            for index in 0..len as isize {
                // The container is new, and takes the reference over.
                let item = items.next()?.into_handle().cast();
                match is_list {
                    true => PyList_SET_ITEM(container.as_ptr(), index, item),
                    false => PyTuple_SET_ITEM(container.as_ptr(), index, item),
                }
            }
            Ok(container)
        })
    }
}

/// See [`crate::table::PayloadTable::tagged_items`].
pub(crate) unsafe extern "C" fn tagged_items(
    container: Handle,
    items: *mut TaggedValue,
    len: usize,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and room for `len` items. No Python code runs here, so the
    // length does not change.
    unsafe {
        guarded(sink, || {
            let container: *mut PyObject = container.cast();
            let kind = kind_of(container);
            has_length(container, kind, len)?;
            for index in 0..len {
                *items.add(index) = tagged_value_of(item_of(container, kind, index))?;
            }
            Ok(())
        })
    }
}

/// # Safety
///
/// Attached; `container` is a list or tuple, as `kind` says, that has the item.
unsafe fn item_of(container: *mut PyObject, kind: Kind, index: usize) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe {
        match kind {
            Kind::LIST => PyList_GET_ITEM(container, index as isize),
            _ => PyTuple_GET_ITEM(container, index as isize),
        }
    }
}

/// # Safety
///
/// Attached; `container` is of that kind.
unsafe fn has_length(container: *mut PyObject, kind: Kind, len: usize) -> Outcome<()> {
    // SAFETY: by contract.
    let found = unsafe {
        match kind {
            Kind::LIST => PyList_Size(container),
            Kind::TUPLE => PyTuple_Size(container),
            Kind::DICT => PyDict_Size(container),
            _ => -1,
        }
    };
    if usize::try_from(found) == Ok(len) {
        return Ok(());
    }
    Err(Fault::Conversion {
        expected: "a container of the length it had",
        reason: format!("its length was {len} and is {found}"),
    })
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
            has_length(container, kind, len)?;
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
                    let item = item_of(container, kind, index);
                    *items.add(index) = Ref::borrowed(item)?.into_handle();
                }
            }
            Ok(())
        })
    }
}

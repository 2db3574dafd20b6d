//! Streams of the host as Python objects, for `_hydrozoa.streams`.
//!
//! They need no interpreter on the host's side: what is printed while the interpreter ends arrives too.

use crate::report::guarded;
use crate::table::{Handle, Status, Stream};
use crate::types::{CarrierType, Lent, carried};
use pyo3_ffi::{
    METH_O, Py_buffer, Py_tp_methods, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release,
    PyErr_SetFromErrno, PyEval_RestoreThread, PyEval_SaveThread, PyExc_OSError, PyLong_FromSsize_t,
    PyMethodDef, PyMethodDefPointer, PyObject, PyObject_GetBuffer,
};
use std::ffi::{c_int, c_void};
use std::ptr;

/// The host's stream behind an object.
struct Carried {
    stream: Stream,
    _lent: Lent,
}

/// See [`crate::table::PayloadTable::stream`].
pub(crate) unsafe extern "C" fn stream(
    stream: *const Stream,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    static TYPE: CarrierType = CarrierType::new();
    // SAFETY: the host is attached, and passes a valid stream and place.
    unsafe {
        let stream = *stream;
        // From here on the stream is dropped in every case.
        let carried =
            Carried { stream, _lent: Lent { context: stream.context, drop: stream.drop } };
        guarded(sink, move || {
            let slots = [(Py_tp_methods, (&raw mut METHODS).cast())];
            *out = TYPE.make(c"_hydrozoa.Stream", &slots, carried)?.into_handle();
            Ok(())
        })
    }
}

/// CPython wants a mutable list, and does not change it.
static mut METHODS: [PyMethodDef; 3] = [
    PyMethodDef {
        ml_name: c"write".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: write },
        ml_flags: METH_O,
        ml_doc: c"write(bytes): writes them all, or flushes if there are none.".as_ptr(),
    },
    PyMethodDef {
        ml_name: c"readinto".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: read },
        ml_flags: METH_O,
        ml_doc: c"readinto(buffer): reads at most as much as it holds; 0 at the end.".as_ptr(),
    },
    PyMethodDef::zeroed(),
];

unsafe extern "C" fn write(object: *mut PyObject, bytes: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached, on an object of the type above; the buffer is held during the call.
    unsafe {
        exchange(bytes, PyBUF_SIMPLE, |data, len| {
            let Stream { context, write, .. } = carried::<Carried>(object).stream;
            match write(context, data, len) {
                0 => Ok(len.cast_signed()),
                error => Err(error),
            }
        })
    }
}

unsafe extern "C" fn read(object: *mut PyObject, buffer: *mut PyObject) -> *mut PyObject {
    // SAFETY: as above; the buffer may be written.
    unsafe {
        exchange(buffer, PyBUF_WRITABLE, |data, len| {
            let Stream { context, read, .. } = carried::<Carried>(object).stream;
            match read(context, data, len) {
                count @ 0.. => Ok(count),
                error => Err(c_int::try_from(-error).unwrap_or(libc::EIO)),
            }
        })
    }
}

/// Calls `action` with an object's memory, without the GIL, and returns its number or raises its error.
///
/// # Safety
///
/// Attached, and the object is alive.
unsafe fn exchange(
    object: *mut PyObject,
    flags: c_int,
    action: impl FnOnce(*mut u8, usize) -> Result<isize, c_int>,
) -> *mut PyObject {
    // SAFETY: by contract. The view is held until after the call; the state is this thread's.
    unsafe {
        let mut view = Py_buffer::new();
        if PyObject_GetBuffer(object, &mut view, flags) != 0 {
            return ptr::null_mut();
        }
        let state = PyEval_SaveThread();
        let done = action(view.buf.cast(), view.len.unsigned_abs());
        PyEval_RestoreThread(state);
        PyBuffer_Release(&mut view);
        match done {
            Ok(count) => PyLong_FromSsize_t(count),
            Err(error) => {
                *libc::__errno_location() = error;
                PyErr_SetFromErrno(PyExc_OSError)
            }
        }
    }
}

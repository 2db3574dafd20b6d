//! Streams of the host as Python objects, for `_hydrozoa.streams`.
//!
//! They need no interpreter on the host's side: text printed while the interpreter ends arrives too.

use crate::api::carriers::{CarrierType, Lent, carried};
use crate::exceptions::report::returning;
use crate::table::{Handle, Status, Stream};
use crate::threads::ending;
use pyo3_ffi::{
    METH_O, Py_buffer, Py_tp_methods, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release,
    PyErr_SetFromErrno, PyEval_SaveThread, PyExc_OSError, PyLong_FromSsize_t, PyMethodDef,
    PyMethodDefPointer, PyObject, PyObject_GetBuffer, PyThreadState,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The host's stream behind an object.
struct Carried {
    stream: Stream,
    /// How many threads are in one of its functions.
    users: AtomicUsize,
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
        let carried = Carried {
            stream,
            users: AtomicUsize::new(0),
            _lent: Lent { context: stream.context, drop: stream.drop },
        };
        returning(out, sink, move || {
            let slots = [(Py_tp_methods, (&raw mut METHODS).cast())];
            TYPE.make(c"_hydrozoa.Stream", &slots, carried)
        })
    }
}

/// CPython wants a mutable list, and does not change it.
static mut METHODS: [PyMethodDef; 3] = [
    PyMethodDef {
        ml_name: c"write".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: write },
        ml_flags: METH_O,
        ml_doc: c"write(bytes): writes them all, or flushes if empty.".as_ptr(),
    },
    PyMethodDef {
        ml_name: c"readinto".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: read },
        ml_flags: METH_O,
        ml_doc: c"readinto(buffer): reads at most as much as it holds; 0 at the end.".as_ptr(),
    },
    PyMethodDef::zeroed(),
];

// A thread that comes back to a Python that has ended is ended in `PyEval_RestoreThread`. So the functions that call it, up
// to CPython's, call nothing that could panic, and have nothing that would be dropped: unwinders find nothing to run.

unsafe extern "C" {
    /// Include/ceval.h. pyo3-ffi's own has a frame that lets no thread end.
    fn PyEval_RestoreThread(state: *mut PyThreadState);
}

unsafe extern "C" fn write(object: *mut PyObject, bytes: *mut PyObject) -> *mut PyObject {
    let mut exchange = MaybeUninit::uninit();
    // SAFETY: called attached, on an object of the type above. The state is this thread's.
    unsafe {
        let state = begin_write(object, bytes, exchange.as_mut_ptr());
        if state.is_null() {
            return ptr::null_mut();
        }
        PyEval_RestoreThread(state);
        end(exchange.as_mut_ptr())
    }
}

unsafe extern "C" fn read(object: *mut PyObject, buffer: *mut PyObject) -> *mut PyObject {
    let mut exchange = MaybeUninit::uninit();
    // SAFETY: as above.
    unsafe {
        let state = begin_read(object, buffer, exchange.as_mut_ptr());
        if state.is_null() {
            return ptr::null_mut();
        }
        PyEval_RestoreThread(state);
        end(exchange.as_mut_ptr())
    }
}

/// An exchange with the host that is over, on a thread without the GIL.
struct Exchange {
    view: Py_buffer,
    /// The number of bytes, or the negative of an error of `errno(3)`.
    done: isize,
}

/// Writes an object's bytes. Null if it has none.
#[inline(never)]
unsafe extern "C" fn begin_write(
    object: *mut PyObject,
    bytes: *mut PyObject,
    out: *mut Exchange,
) -> *mut PyThreadState {
    // SAFETY: attached; the buffer is held until `end`.
    unsafe {
        begin(object, bytes, PyBUF_SIMPLE, out, |stream, data, len| {
            match (stream.write)(stream.context, data, len) {
                0 => len.cast_signed(),
                error => -(error as isize),
            }
        })
    }
}

/// Reads into an object's memory. Null if it has none.
#[inline(never)]
unsafe extern "C" fn begin_read(
    object: *mut PyObject,
    buffer: *mut PyObject,
    out: *mut Exchange,
) -> *mut PyThreadState {
    // SAFETY: as above; the buffer may be written.
    unsafe {
        begin(object, buffer, PyBUF_WRITABLE, out, |stream, data, len| {
            (stream.read)(stream.context, data, len)
        })
    }
}

/// Calls `action` with an object's memory, without the GIL.
///
/// # Safety
///
/// Attached, on an object of the type above; the other object is alive.
unsafe fn begin(
    object: *mut PyObject,
    memory: *mut PyObject,
    flags: c_int,
    out: *mut Exchange,
    action: impl FnOnce(&Stream, *mut u8, usize) -> isize,
) -> *mut PyThreadState {
    // SAFETY: by contract. The view is held until after the call.
    unsafe {
        let mut view = Py_buffer::new();
        if PyObject_GetBuffer(memory, &mut view, flags) != 0 {
            return ptr::null_mut();
        }
        let carried = carried::<Carried>(object);
        let (data, len) = (view.buf.cast(), view.len.unsigned_abs());
        let is_cut_off = ending::is_cut_off();
        let state = PyEval_SaveThread();
        let done = if is_cut_off && carried.is_busy() {
            len.cast_signed()
        } else {
            carried.users.fetch_add(1, Ordering::AcqRel);
            let done = action(&carried.stream, data, len);
            carried.users.fetch_sub(1, Ordering::AcqRel);
            done
        };
        out.write(Exchange { view, done });
        state
    }
}

/// Gives the memory back, and returns the number or raises the error.
#[inline(never)]
unsafe extern "C" fn end(exchange: *mut Exchange) -> *mut PyObject {
    // SAFETY: attached, with what `begin` has left.
    unsafe {
        let Exchange { view, done } = &mut *exchange;
        PyBuffer_Release(view);
        if let count @ 0.. = *done {
            return PyLong_FromSsize_t(count);
        }
        *libc::__errno_location() = c_int::try_from(-*done).unwrap_or(libc::EIO);
        PyErr_SetFromErrno(PyExc_OSError)
    }
}

impl Carried {
    /// Whether a thread uses the stream for longer than a moment. After other threads have been cut off, nobody waits for
    /// what one of them has begun: what is written then is lost.
    fn is_busy(&self) -> bool {
        (0..100).all(|_| {
            let is_busy = self.users.load(Ordering::Acquire) > 0;
            if is_busy {
                std::thread::sleep(Duration::from_millis(1));
            }
            is_busy
        })
    }
}

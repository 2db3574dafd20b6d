//! Memory across the boundary, by the buffer protocol (PEP 3118).

use crate::api::carriers::{CarrierType, Lent, carried};
use crate::api::reference::{Ref, done};
use crate::exceptions::report::{guarded, returning};
use crate::table::{BufferView, Handle, Loan, Status};
use crate::threads;
use pyo3_ffi::{
    Py_bf_getbuffer, Py_buffer, PyBUF_RECORDS_RO, PyBUF_WRITABLE, PyBuffer_FillInfo,
    PyBuffer_Release, PyMemoryView_FromObject, PyObject, PyObject_GetBuffer,
};
use std::ffi::{c_int, c_void};

/// See [`crate::table::PayloadTable::buffer`].
pub(crate) unsafe extern "C" fn buffer(
    object: Handle,
    writable: c_int,
    out: *mut BufferView,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe {
        guarded(sink, || {
            // On the heap: exporters may keep the structure's address until it is released.
            let mut record = Box::new(Py_buffer::new());
            let writable = if writable == 0 { 0 } else { PyBUF_WRITABLE };
            // Format, shape and strides. An exporter with suboffsets (PEP 3118) refuses.
            let flags = PyBUF_RECORDS_RO | writable;
            done(PyObject_GetBuffer(object.cast(), &mut *record, flags))?;
            *out = BufferView {
                data: record.buf.cast(),
                len: record.len,
                item_size: record.itemsize,
                format: record.format,
                dimensions: record.ndim,
                shape: record.shape,
                strides: record.strides,
                suboffsets: record.suboffsets,
                read_only: record.readonly,
                record: Box::into_raw(record).cast(),
            };
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::buffer_release`].
pub(crate) unsafe extern "C" fn buffer_release(record: *mut c_void) {
    // SAFETY: the host passes the record once and does not use it any more.
    unsafe { threads::defer(release_now, record) };
}

unsafe extern "C" fn release_now(record: *mut c_void) {
    // SAFETY: run under the GIL, once, with a record that `buffer` made.
    unsafe {
        let mut record = Box::from_raw(record.cast::<Py_buffer>());
        PyBuffer_Release(&mut *record);
    }
}

/// Memory of the host as an object: the exporter behind a `memoryview`.
struct LentMemory {
    loan: Loan,
    _lent: Lent,
}

/// See [`crate::table::PayloadTable::lend`].
pub(crate) unsafe extern "C" fn lend(
    loan: *const Loan,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    static TYPE: CarrierType = CarrierType::new();
    // SAFETY: the host is attached, and passes a valid loan and place.
    unsafe {
        let loan = *loan;
        // From here on the loan is dropped in every case.
        let memory = LentMemory { loan, _lent: Lent { context: loan.context, drop: loan.drop } };
        returning(out, sink, move || {
            let slots = [(Py_bf_getbuffer, get_buffer as *mut c_void)];
            let memory = TYPE.make(c"_hydrozoa.Memory", &slots, memory)?;
            Ref::owned(PyMemoryView_FromObject(memory.as_ptr()))
        })
    }
}

/// `bf_getbuffer`: the view holds a reference to the object, and with it the loan.
unsafe extern "C" fn get_buffer(
    object: *mut PyObject,
    view: *mut Py_buffer,
    flags: c_int,
) -> c_int {
    // SAFETY: called on an object of the type above, with a structure to be filled.
    unsafe {
        let loan = carried::<LentMemory>(object).loan;
        PyBuffer_FillInfo(view, object, loan.data.cast(), loan.len as isize, loan.read_only, flags)
    }
}

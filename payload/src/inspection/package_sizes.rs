//! The memory of each Python package's objects, as the module `_hydrozoa.package_sizes` measures it.

use crate::api::fault::Fault;
use crate::api::reference::{Ref, utf8_of};
use crate::exceptions::report::guarded;
use crate::table::{PackageSize, Status, Text};
use pyo3_ffi::{PyArg_ParseTuple, PyList_GetItem, PyList_Size};
use std::ffi::c_void;
use std::ptr;

/// See [`crate::table::PayloadTable::packages`].
pub(crate) unsafe extern "C" fn packages(
    visit: unsafe extern "C" fn(*mut c_void, *const PackageSize),
    context: *mut c_void,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes its own sink, function and context. The list keeps its tuples, and these what
    // they have.
    unsafe {
        guarded(sink, || {
            let sizes = Ref::import(c"_hydrozoa.package_sizes")?.call_method(c"measure", [])?;
            for index in 0..PyList_Size(sizes.as_ptr()) {
                let one = PyList_GetItem(sizes.as_ptr(), index);
                let (mut name, mut bytes, mut objects) = (ptr::null_mut(), 0, 0);
                let format = c"Onn".as_ptr();
                if PyArg_ParseTuple(one, format, &mut name, &mut bytes, &mut objects) == 0 {
                    return Err(Fault::Raised);
                }
                let name = Text::new(utf8_of(name).unwrap_or("?"));
                visit(context, &PackageSize { name, bytes, objects });
            }
            Ok(())
        })
    }
}

//! Collections of garbage while modules are imported.
//!
//! Python looks for cyclic garbage among young objects after every 700 new containers, and among all objects when their
//! number has grown by a quarter (`gc_collect_generations` in Modules/gcmodule.c). Imports make many objects that live on.
//! So while `import torch, torchvision` runs, Python looks through all objects five times, which takes a sixth of the
//! processor time. While the host imports a module or loads an object, it does so [`SELDOM`]. Collections of young objects
//! go on.
//!
//! Code that asks for the thresholds then sees another third one. The collector is enabled as ever. Code that sets thresholds
//! or disables the collector meanwhile has its way. If such code sets later what it has read here, collections go on.
//!
//! CPython 3.14 collects in small steps, and has no such threshold.

use crate::reference::Ref;
use pyo3_ffi::{
    PyErr_Clear, PyErr_Occurred, PyGC_IsEnabled, PyImport_ImportModule, PyLong_AsLong, PyObject,
    PyObject_CallMethodNoArgs, PyObject_CallMethodObjArgs, PyTuple_GetItem,
};
use std::ffi::{CStr, c_long};
use std::ptr;

/// The third threshold meanwhile: after so many collections of the second generation, that is after about 800,000 new
/// containers that live on, Python looks through all objects.
const SELDOM: c_long = 100;

/// See [`crate::table::PayloadTable::collect_seldom`].
pub(crate) unsafe extern "C" fn collect_seldom() -> c_long {
    // SAFETY: the host is attached.
    unsafe {
        if PyGC_IsEnabled() == 0 {
            return 0;
        }
        let raise = |collector: &Collector| {
            let thresholds = collector.thresholds()?;
            let before = thresholds[2];
            let is_lower = (1..SELDOM).contains(&before);
            (is_lower && collector.set_last(thresholds, SELDOM)).then_some(before)
        };
        Collector::with(raise).unwrap_or_default()
    }
}

/// See [`crate::table::PayloadTable::collect_as_before`].
pub(crate) unsafe extern "C" fn collect_as_before(before: c_long) {
    if before == 0 {
        return;
    }
    let (mut kind, mut value, mut traceback) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // The three-part functions are deprecated since 3.12, and the only ones that 3.10 has.
    #[allow(deprecated, reason = "PyErr_GetRaisedException is new in 3.12")]
    // SAFETY: the host is attached. An exception that is set is put aside, and back.
    unsafe {
        pyo3_ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback);
        Collector::with(|collector| {
            let thresholds = collector.thresholds()?;
            if thresholds[2] == SELDOM && collector.set_last(thresholds, before) {
                collector.put_off(before);
            }
            Some(())
        });
        pyo3_ffi::PyErr_Restore(kind, value, traceback);
    }
}

/// Calls `action` while Python seldom looks for garbage.
///
/// # Safety
///
/// The thread is attached, and no exception is set.
pub(crate) unsafe fn seldom<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: by contract.
    let before = unsafe { collect_seldom() };
    let result = action();
    // SAFETY: by contract; an exception may be set now.
    unsafe { collect_as_before(before) };
    result
}

/// The module `gc`.
struct Collector(Ref);

impl Collector {
    /// Calls `action` with it. An exception that `action` leaves is cleared.
    ///
    /// # Safety
    ///
    /// The thread is attached, and no exception is set. The same holds for all functions here.
    unsafe fn with<T>(action: impl FnOnce(&Self) -> Option<T>) -> Option<T> {
        // SAFETY: attached.
        unsafe {
            let module = Ref::owned(PyImport_ImportModule(c"gc".as_ptr()));
            let result = module.ok().and_then(|module| action(&Self(module)));
            PyErr_Clear();
            result
        }
    }

    /// `gc.get_threshold()`
    unsafe fn thresholds(&self) -> Option<[c_long; 3]> {
        // SAFETY: attached.
        unsafe { self.numbers(c"get_threshold") }
    }

    /// The three numbers that a function of it returns.
    unsafe fn numbers(&self, function: &CStr) -> Option<[c_long; 3]> {
        // SAFETY: attached; the tuple owns its items.
        unsafe {
            let all = self.call(function)?;
            let mut numbers = [0; 3];
            for (index, number) in (0..).zip(&mut numbers) {
                let item = PyTuple_GetItem(all.as_ptr(), index);
                if item.is_null() {
                    return None;
                }
                *number = PyLong_AsLong(item);
            }
            PyErr_Occurred().is_null().then_some(numbers)
        }
    }

    /// `gc.set_threshold`, with another third one. Whether it was done.
    unsafe fn set_last(&self, [first, second, _]: [c_long; 3], last: c_long) -> bool {
        // SAFETY: attached; each reference is owned here.
        unsafe {
            let set = || {
                let name = Ref::text(b"set_threshold")?;
                let [first, second, last] =
                    [first, second, last].map(|value| Ref::owned(pyo3_ffi::PyLong_FromLong(value)));
                let (first, second, last) = (first?, second?, last?);
                Ref::owned(PyObject_CallMethodObjArgs(
                    self.0.as_ptr(),
                    name.as_ptr(),
                    first.as_ptr(),
                    second.as_ptr(),
                    last.as_ptr(),
                    ptr::null_mut::<PyObject>(),
                ))
            };
            set().is_ok()
        }
    }

    /// If Python would look through all objects now, has it begin to count again, as after such a collection. `gc.freeze`
    /// does so: it puts all objects aside, and `gc.unfreeze` makes them the oldest. That is not done if there are objects aside:
    /// a program may have put them there, and 3.12 does so itself.
    unsafe fn put_off(&self, threshold: c_long) {
        // SAFETY: attached; no code of the program runs between the two.
        unsafe {
            let is_due = self.numbers(c"get_count").is_some_and(|counts| counts[2] > threshold);
            let frozen = self.call(c"get_freeze_count").map(|count| PyLong_AsLong(count.as_ptr()));
            if is_due && frozen == Some(0) && self.call(c"freeze").is_some() {
                self.call(c"unfreeze");
            }
        }
    }

    /// Calls a function of it without arguments.
    unsafe fn call(&self, name: &CStr) -> Option<Ref> {
        // SAFETY: attached; each reference is owned here.
        unsafe {
            let name = Ref::text(name.to_bytes()).ok()?;
            Ref::owned(PyObject_CallMethodNoArgs(self.0.as_ptr(), name.as_ptr())).ok()
        }
    }
}

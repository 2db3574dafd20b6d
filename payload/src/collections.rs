//! Collections of garbage while modules are imported.
//!
//! Python looks for cyclic garbage among young objects after every 700 new containers (2,000 since 3.13), and among all objects
//! when their number has grown by a quarter (`gc_collect_generations` in Modules/gcmodule.c). Imports make many objects that
//! live on. While `import torch, torchvision` runs, Python looks through all objects five times, and 600 times through young
//! ones: that takes a fifth of the processor time, and finds two in a hundred.
//!
//! While the host imports a module or loads an object, Python looks through all objects [`SELDOM`]. Each import of a module puts
//! the next collection of young objects off, until there are [`MANY`] new containers more. So a module that makes much garbage
//! has it collected. Afterwards [`Collector::put_off`] sees to it that the first call does not pay for what was left out.
//!
//! Code that asks for the thresholds meanwhile sees other ones. The collector is enabled as ever. Code that sets thresholds
//! or disables the collector has its way. What it has read it may set again, as long as the import goes on.
//!
//! CPython 3.14 collects in small steps, and has no such thresholds.

use crate::fault::Outcome;
use crate::reference::Ref;
use crate::table::Thresholds;
use pyo3_ffi::{
    METH_NOARGS, Py_INCREF, Py_None, PyCFunction_New, PyErr_Clear, PyErr_Occurred, PyGC_IsEnabled,
    PyImport_ImportModule, PyLong_AsLong, PyMethodDef, PyMethodDefPointer, PyObject,
    PyObject_CallMethodNoArgs, PyObject_CallMethodObjArgs, PyObject_CallOneArg,
    PyObject_GetAttrString, PyTuple_GetItem,
};
use std::ffi::{CStr, c_long};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The third threshold meanwhile: after so many collections of the second generation Python looks through all objects.
const SELDOM: c_long = 100;

/// So many containers a module may make until Python looks through all young objects. No module of torch and torchvision makes
/// as many.
const MANY: c_long = 50_000;

/// Whether the first threshold is one of [`later_than`]: while the host imports.
static IS_RAISED: AtomicBool = AtomicBool::new(false);

/// What all first thresholds that are set here leave when they are divided by 1,000. A program that sets what it has read is known
/// by that: no other threshold looks so.
const MARK: c_long = 729;

/// The first threshold for so many young containers: [`MANY`] more, or some hundred more than that.
fn later_than(young: c_long) -> c_long {
    (young + MANY) / 1000 * 1000 + MARK
}

fn is_raised(first: c_long) -> bool {
    first >= MANY && first % 1000 == MARK
}

/// See [`crate::table::PayloadTable::collect_seldom`].
pub(crate) unsafe extern "C" fn collect_seldom() -> Thresholds {
    let none = Thresholds { first: 0, last: 0 };
    // SAFETY: the host is attached.
    unsafe {
        if PyGC_IsEnabled() == 0 {
            return none;
        }
        let raise = |collector: &Collector| {
            let [first, second, last] = collector.numbers(c"get_threshold")?;
            // Another import of the host has raised it, or the program has.
            if !(1..SELDOM).contains(&last) {
                return None;
            }
            let [young, ..] = collector.numbers(c"get_count")?;
            let is_lower = (1..MANY).contains(&first);
            let raised = if is_lower { later_than(young) } else { first };
            collector.set([raised, second, SELDOM])?;
            IS_RAISED.store(is_lower, Ordering::Relaxed);
            Some(Thresholds { first, last })
        };
        Collector::with(raise).unwrap_or(none)
    }
}

/// See [`crate::table::PayloadTable::collect_as_before`].
pub(crate) unsafe extern "C" fn collect_as_before(before: Thresholds) {
    if before.last == 0 {
        return;
    }
    let (mut kind, mut value, mut traceback) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // The three-part functions are deprecated since 3.12, and the only ones that 3.10 has.
    #[allow(deprecated, reason = "PyErr_GetRaisedException is new in 3.12")]
    // SAFETY: the host is attached. An exception that is set is put aside, and back.
    unsafe {
        pyo3_ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback);
        Collector::with(|collector| {
            let was_raised = IS_RAISED.swap(false, Ordering::Relaxed);
            let [first, second, last] = collector.numbers(c"get_threshold")?;
            let first = if was_raised && is_raised(first) { before.first } else { first };
            let is_seldom = last == SELDOM;
            let last = if is_seldom { before.last } else { last };
            // With the lower thresholds the next container would have Python look.
            let put_off = if is_seldom { collector.put_off(before) } else { Some(()) };
            collector.set([first, second, last]).and(put_off)
        });
        pyo3_ffi::PyErr_Restore(kind, value, traceback);
    }
}

/// A Python function without arguments, for whoever is asked for a module. While the host imports, it puts the next collection
/// of young objects off, unless the program has set a threshold.
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn later() -> Outcome<Ref> {
    /// CPython wants it mutable, and does not change it.
    static mut METHOD: PyMethodDef = PyMethodDef {
        ml_name: c"collect_later".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: collect_later },
        ml_flags: METH_NOARGS,
        ml_doc: ptr::null(),
    };
    // SAFETY: attached; the description lives as long as the function.
    unsafe { Ref::owned(PyCFunction_New(&raw mut METHOD, ptr::null_mut())) }
}

unsafe extern "C" fn collect_later(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached, without an exception.
    unsafe {
        if IS_RAISED.load(Ordering::Relaxed) {
            Collector::with(|collector| {
                let [first, second, last] = collector.numbers(c"get_threshold")?;
                let [young, ..] = collector.numbers(c"get_count")?;
                if is_raised(first) {
                    collector.set([later_than(young), second, last])?;
                }
                Some(())
            });
        }
        let none = Py_None();
        Py_INCREF(none);
        none
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

    /// `gc.set_threshold`
    unsafe fn set(&self, thresholds: [c_long; 3]) -> Option<()> {
        // SAFETY: attached; each reference is owned here.
        unsafe {
            let name = Ref::text(b"set_threshold").ok()?;
            let [first, second, last] =
                thresholds.map(|value| Ref::owned(pyo3_ffi::PyLong_FromLong(value)).ok());
            let (first, second, last) = (first?, second?, last?);
            Ref::owned(PyObject_CallMethodObjArgs(
                self.0.as_ptr(),
                name.as_ptr(),
                first.as_ptr(),
                second.as_ptr(),
                last.as_ptr(),
                ptr::null_mut::<PyObject>(),
            ))
            .ok()
            .map(drop)
        }
    }

    /// If Python would look through all objects now, or through many young ones, has it begin to count again, as after such a
    /// collection. `gc.freeze` does so: it puts all objects aside, and `gc.unfreeze` makes them the oldest. That is not done if
    /// there are objects aside: a program may have put them there, and 3.12 does so itself. Then the young ones are looked
    /// through here.
    unsafe fn put_off(&self, thresholds: Thresholds) -> Option<()> {
        // SAFETY: attached; no code of the program runs between the two.
        unsafe {
            let [young, _, old] = self.numbers(c"get_count")?;
            let are_many = young > 10 * thresholds.first;
            if !are_many && old <= thresholds.last {
                return Some(());
            }
            if PyLong_AsLong(self.call(c"get_freeze_count")?.as_ptr()) == 0 {
                self.call(c"freeze")?;
                self.call(c"unfreeze")?;
            } else if are_many {
                let collect =
                    Ref::owned(PyObject_GetAttrString(self.0.as_ptr(), c"collect".as_ptr()));
                let youngest = Ref::owned(pyo3_ffi::PyLong_FromLong(0));
                let (collect, youngest) = (collect.ok()?, youngest.ok()?);
                Ref::owned(PyObject_CallOneArg(collect.as_ptr(), youngest.as_ptr())).ok()?;
            }
            Some(())
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

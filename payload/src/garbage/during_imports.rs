//! Collections of garbage while modules are imported.
//!
//! Python looks for cyclic garbage among young objects after every 700 new containers (2,000 since 3.13), and among all objects
//! when their number has grown by a quarter (`gc_collect_generations` in Modules/gcmodule.c). Imports make many objects that
//! live on. During `import torch, torchvision` Python looks through all objects five times and 600 times through young ones. That takes a
//! fifth of the processor time, and finds two in a hundred.
//!
//! While the host imports a module or loads an object, the first threshold is [`MANY`] and the third is [`SELDOM`]. Code that asks for the
//! thresholds meanwhile sees those. The collector stays enabled, and code that sets thresholds or disables the collector has its way.
//! Afterwards [`Collector::put_off`] makes sure that the first call does not pay for the collections that were left out.
//!
//! CPython 3.14 collects in small steps, and has no such threshold.

use crate::api::fault::{Fault, Outcome};
use crate::api::reference::{Ref, with_exception_aside};
use pyo3_ffi::{PyArg_ParseTuple, PyErr_Clear, PyGC_IsEnabled, PyLong_AsLong, PyObject_CallMethod};
use std::ffi::{CStr, c_long};
use std::sync::atomic::{AtomicI64, Ordering};

/// The third threshold meanwhile: after so many collections of the second generation Python looks through all objects.
const SELDOM: c_long = 100;

/// The first threshold meanwhile: a module that makes more garbage than this has it collected.
const MANY: c_long = 50_000;

/// The first threshold before. One import at a time raises it.
static FIRST: AtomicI64 = AtomicI64::new(0);

/// No valid third threshold: the answer if nothing was changed.
const UNCHANGED: c_long = 0;

/// See [`crate::table::PayloadTable::collect_seldom`].
pub(crate) unsafe extern "C" fn collect_seldom() -> c_long {
    // SAFETY: the host is attached.
    unsafe {
        if PyGC_IsEnabled() == 0 {
            return UNCHANGED;
        }
        let raise = |collector: &Collector| {
            let [first, second, last] = collector.numbers(c"get_threshold")?;
            // Another import of the host has raised it, or the program has.
            if !(1..SELDOM).contains(&last) {
                return Ok(UNCHANGED);
            }
            FIRST.store(first, Ordering::Relaxed);
            let raised = if (1..MANY).contains(&first) { MANY } else { first };
            collector.set([raised, second, SELDOM])?;
            Ok(last)
        };
        Collector::with(raise).unwrap_or(UNCHANGED)
    }
}

/// See [`crate::table::PayloadTable::collect_as_before`].
pub(crate) unsafe extern "C" fn collect_as_before(before: c_long) {
    if before == UNCHANGED {
        return;
    }
    // SAFETY: the host is attached.
    unsafe {
        with_exception_aside(|| {
            Collector::with(|collector| {
                let [first, second, last] = collector.numbers(c"get_threshold")?;
                // The program has set another.
                if last != SELDOM {
                    return Ok(());
                }
                // With the lower threshold the next container would have Python look.
                let put_off = collector.put_off(before);
                let first = if first == MANY { FIRST.load(Ordering::Relaxed) } else { first };
                collector.set([first, second, before]).and(put_off)
            })
        });
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
    unsafe fn with<T>(action: impl FnOnce(&Self) -> Outcome<T>) -> Option<T> {
        // SAFETY: attached.
        unsafe {
            let result = Ref::import(c"gc").and_then(|module| action(&Self(module)));
            PyErr_Clear();
            result.ok()
        }
    }

    /// The three numbers that a function of it returns.
    unsafe fn numbers(&self, function: &CStr) -> Outcome<[c_long; 3]> {
        let [mut first, mut second, mut last] = [0; 3];
        // SAFETY: attached; there is a place for each of the three numbers. Another answer than a tuple is an error.
        unsafe {
            let all = self.0.call_method(function, [])?;
            let format = c"lll".as_ptr();
            match PyArg_ParseTuple(all.as_ptr(), format, &mut first, &mut second, &mut last) {
                0 => Err(Fault::Raised),
                _ => Ok([first, second, last]),
            }
        }
    }

    /// `gc.set_threshold`
    unsafe fn set(&self, [first, second, last]: [c_long; 3]) -> Outcome<()> {
        let (name, format) = (c"set_threshold".as_ptr(), c"lll".as_ptr());
        // SAFETY: attached; the arguments are three numbers, as the format says.
        unsafe {
            let made = PyObject_CallMethod(self.0.as_ptr(), name, format, first, second, last);
            Ref::owned(made).map(drop)
        }
    }

    /// If Python would look through all objects now, has it begin to count again, as after such a collection. `gc.freeze` does
    /// so: it puts all objects aside, and `gc.unfreeze` makes them the oldest. That is not done if there are objects aside: a
    /// program may have put them there, and 3.12 does so itself.
    unsafe fn put_off(&self, last: c_long) -> Outcome<()> {
        // SAFETY: attached; no code of the program runs between the two.
        unsafe {
            let [_, _, old] = self.numbers(c"get_count")?;
            if old > last
                && PyLong_AsLong(self.0.call_method(c"get_freeze_count", [])?.as_ptr()) == 0
            {
                self.0.call_method(c"freeze", [])?;
                self.0.call_method(c"unfreeze", [])?;
            }
            Ok(())
        }
    }
}

//! The limit of C recursion on a thread, as the room on its stack allows.
//!
//! CPython up to 3.13 counts nested calls, and does not look at the stack. Its limits are for 8 MiB: 10,000 units on
//! 3.13 (`Py_C_RECURSION_LIMIT`, Include/cpython/pystate.h). Up to 3.11 there is one count, for Python's calls too. An
//! application's thread may have less, as Rust's threads do (2 MiB), and may have used some of it before it enters
//! Python. So each entry lowers the rest of the count to the room on the stack. The count is a field of the
//! thread's state. CPython has no function for it. 3.14 reads the bounds of the stack itself
//! (`_Py_InitializeRecursionLimits`, Python/ceval.c).

use pyo3_ffi::{Py_GetRecursionLimit, Py_GetVersion, PyThreadState};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Stack for one unit of the count, in bytes. Measured on stock builds of 3.10 to 3.13: nested calls of `sorted` with
/// a key take most, 5,100 to 5,500 bytes for 3 or 4 units, because `list.sort` keeps 256 pointers on the stack. Others
/// take 400 to 900 for one (callbacks of `re` and `json`, `__getattr__`, `__index__`, `exec`).
const UNIT: usize = 1792;

/// Stack that no unit uses, in bytes: for functions of C that count nothing, and for the 50 units more that CPython
/// allows while it handles the exception.
const RESERVE: usize = 128 << 10;

/// With so much room CPython's own limit stays: it is the stack for which the limit is made, less what a thread has
/// used before.
const ENOUGH: usize = 7 << 20;

/// Where a thread's state has the count, in bytes; 0 if that is not known or not needed.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// 1 if the count is of used units, which a lower limit makes greater; -1 if it is of those left.
static DIRECTION: AtomicI32 = AtomicI32::new(-1);

/// The minor version of this Python.
pub(crate) fn minor() -> Option<u32> {
    // SAFETY: a static text.
    let version = unsafe { CStr::from_ptr(Py_GetVersion()) }.to_string_lossy();
    version.split('.').nth(1).and_then(|minor| minor.parse().ok())
}

/// Finds the count in the state of this thread (`struct _ts`, Include/cpython/pystate.h). A build whose fields lie
/// elsewhere keeps its limits.
///
/// # Safety
///
/// `state` is that of this thread, which is attached and has just started the interpreter.
pub(crate) unsafe fn find(state: *mut PyThreadState) {
    let minor = minor();
    // SAFETY: the state is larger than that on each of these versions; attached.
    let (number, expected) =
        unsafe { (|place| field(state, place).read(), Py_GetRecursionLimit()) };
    // The fields beside it say whether it is the count: the limit of `sys.setrecursionlimit`, or, on 3.10, the count
    // of levels for error handling. 10,000 is the greatest limit of 3.12 and 3.13.
    let left = |place| (100..=10_000.max(expected)).contains(&number(place));
    let (place, is_it) = match minor {
        Some(10) => (32, (0..100).contains(&number(32)) && number(36) == 0),
        Some(11) => (32, left(32) && number(36) == expected),
        Some(12) => (36, left(36) && number(32) == expected),
        Some(13) => (52, left(52) && number(48) == expected),
        _ => return,
    };
    if is_it {
        DIRECTION.store(if minor == Some(10) { 1 } else { -1 }, Ordering::Relaxed);
        PLACE.store(place, Ordering::Release);
    }
}

/// # Safety
///
/// `state` is a thread's state, which has a number at `place`.
unsafe fn field(state: *mut PyThreadState, place: usize) -> *mut c_int {
    // SAFETY: by contract.
    unsafe { state.byte_add(place).cast() }
}

/// The greatest number that [`lower`] takes away.
pub(crate) const MOST: c_int = 0x7fff;

/// Lowers the rest of this thread's count to the room on its stack, in bytes. Returns the number of units that it has
/// taken away, for [`restore`].
///
/// # Safety
///
/// `state` is that of this thread, which is attached.
pub(crate) unsafe fn lower(state: *mut PyThreadState, room: usize) -> c_int {
    let place = PLACE.load(Ordering::Acquire);
    if place == 0 || room >= ENOUGH {
        return 0;
    }
    let units = (room.saturating_sub(RESERVE) / UNIT) as c_int;
    // SAFETY: `find` has found the count there, and only the attached thread uses it.
    unsafe {
        let count = field(state, place);
        let left = match DIRECTION.load(Ordering::Relaxed) {
            1 => Py_GetRecursionLimit() - count.read(),
            _ => count.read(),
        };
        let taken = (left - units).clamp(0, MOST);
        add(count, taken);
        taken
    }
}

/// Gives back what [`lower`] has taken away.
///
/// # Safety
///
/// As for [`lower`], of which `taken` is the result.
pub(crate) unsafe fn restore(state: *mut PyThreadState, taken: c_int) {
    if taken > 0 {
        // SAFETY: as for `lower`, which has found the place.
        unsafe { add(field(state, PLACE.load(Ordering::Acquire)), -taken) };
    }
}

/// # Safety
///
/// `count` is that of this thread, which is attached.
unsafe fn add(count: *mut c_int, taken: c_int) {
    // SAFETY: by contract.
    unsafe { count.write(count.read() + DIRECTION.load(Ordering::Relaxed) * taken) };
}

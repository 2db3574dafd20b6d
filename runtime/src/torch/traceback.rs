//! Gatherers of Python stack frames (`torch::CapturedTraceback::Python`).
//!
//! libtorch asks each in turn until one has frames. With several interpreters it would take the GILs
//! of other interpreters. Each gatherer gets a stand-in that has frames only on threads of its own
//! interpreter. Needed in every release. The slots below are those of torch 2.11.

use std::ffi::c_void;

use super::adapter::{Member, current, symbols};
use super::cxx::CxxVector;
use super::exported::Answer;
use super::forward::{Arguments, forward, instances};
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: the function does for its interpreter what the symbol that its documentation names does
    // for the process.
    unsafe { vec![EXPORTS.traceback_add.answered_by(add, member)] }
}

/// Slots of the class's virtual table.
const CAN_GATHER: usize = 0;
const GATHER: usize = 1;
const GATHER_FORWARD: usize = 6;

/// A `CapturedTraceback::Python`: virtual table, next in libtorch's list, then our fields.
#[repr(C)]
struct StandIn {
    vtable: *const *const c_void,
    next: *mut c_void,
    gatherer: *const *const *const c_void,
    member: &'static Member,
}

/// The stand-in's virtual table: the gated slots are ours, the others forward.
struct Table([*const c_void; 9]);
// SAFETY: addresses of functions.
unsafe impl Sync for Table {}

static TABLE: Table = {
    let mut slots = instances!(method: 0 1 2 3 4 5 6 7 8);
    slots[CAN_GATHER] = can_gather as *const c_void;
    slots[GATHER] = gather::<GATHER> as *const c_void;
    slots[GATHER_FORWARD] = gather::<GATHER_FORWARD> as *const c_void;
    Table(slots)
};

/// `CapturedTraceback::addPythonUnwinder(Python*)`.
unsafe extern "C-unwind" fn add(gatherer: *mut c_void, member: &'static Member) {
    let stand_in = Box::leak(Box::new(StandIn {
        vtable: TABLE.0.as_ptr(),
        next: std::ptr::null_mut(),
        gatherer: gatherer.cast_const().cast(),
        member,
    }));
    // SAFETY: libtorch keeps the object for ever ("p cannot be deleted once added").
    unsafe { (symbols().traceback_add)(std::ptr::from_mut(stand_in).cast()) };
}

impl StandIn {
    fn is_at_home(&self) -> bool {
        current().is_some_and(|member| std::ptr::eq(member, self.member))
    }

    /// # Safety
    /// The gatherer is a static object of a replica that stays mapped.
    unsafe fn method(&self, slot: usize) -> *const c_void {
        // SAFETY: the object begins with its virtual table.
        unsafe { *(*self.gatherer).add(slot) }
    }
}

unsafe extern "C-unwind" fn can_gather(stand_in: *const StandIn) -> bool {
    // SAFETY: a virtual call on a stand-in; the gatherer's own slot has the same signature.
    unsafe {
        let stand_in = &*stand_in;
        let can: unsafe extern "C-unwind" fn(*const c_void) -> bool =
            std::mem::transmute(stand_in.method(CAN_GATHER));
        stand_in.is_at_home() && can(stand_in.gatherer.cast())
    }
}

/// The two methods that return a vector: an empty one, except on the interpreter's own threads.
unsafe extern "C-unwind" fn gather<const SLOT: usize>(
    result: *mut CxxVector,
    stand_in: *const StandIn,
) -> *mut CxxVector {
    // SAFETY: as above; the result is written here or by the gatherer.
    unsafe {
        let stand_in = &*stand_in;
        if !stand_in.is_at_home() {
            result.write(CxxVector::EMPTY);
            return result;
        }
        let gather: unsafe extern "C-unwind" fn(*mut CxxVector, *const c_void) -> *mut CxxVector =
            std::mem::transmute(stand_in.method(SLOT));
        gather(result, stand_in.gatherer.cast())
    }
}

/// Forwards a virtual call on a stand-in to slot `SLOT` of its gatherer.
#[unsafe(naked)]
extern "C" fn method<const SLOT: u32>() {
    forward!(SLOT, resolve)
}

/// The other methods. libtorch calls them on the stand-in that gathered the frames.
extern "C" fn resolve(slot: u32, arguments: &mut Arguments) -> *const c_void {
    // SAFETY: virtual calls on a stand-in, none of which has a hidden result.
    unsafe {
        let stand_in = &*(arguments.integers[0] as *const StandIn);
        arguments.integers[0] = stand_in.gatherer as usize;
        stand_in.method(slot as usize)
    }
}

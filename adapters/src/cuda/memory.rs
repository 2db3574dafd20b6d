//! Replacements for the functions by which an interpreter gets device memory, streams and handles, or returns them.
//!
//! Each receives its interpreter's account. Device memory counts towards the limit, managed memory included. Other ways are
//! not seen: arrays and textures, memory of other processes, graphs' own memory, and memory that code requests from
//! the driver (torch's expandable segments do).

use super::account::{Account, Kind, forget};
use super::capture;
use super::resource_functions::{FREE, GIVERS, Giver, Size, TAKERS, Taker};
use super::runtime::{Function, NOT_FOUND, Word, call};
use hydrozoa_loader::Interposition;
use std::ffi::c_void;
use std::ptr;

/// `cudaErrorMemoryAllocation`.
const NO_MEMORY: Word = 2;

/// The context that an answer receives.
#[derive(Debug)]
struct Call<T: 'static> {
    account: &'static Account,
    what: &'static T,
}

/// The contexts that the answers of one account receive.
#[derive(Debug)]
pub(super) struct Calls {
    givers: [Call<Giver>; GIVERS.len()],
    takers: [Call<Taker>; TAKERS.len()],
}

impl Calls {
    fn of(account: &'static Account) -> Self {
        Self {
            givers: std::array::from_fn(|index| Call { account, what: &GIVERS[index] }),
            takers: std::array::from_fn(|index| Call { account, what: &TAKERS[index] }),
        }
    }
}

/// Calls a giver for an account.
///
/// # Safety
/// The arguments are those of the function.
unsafe fn give(account: &'static Account, giver: &'static Giver, words: [Word; 9]) -> Word {
    let Some(function) = account.address(&giver.function) else { return NOT_FOUND };
    let wanted = giver.wanted(&words);
    if !account.take(wanted) {
        return NO_MEMORY;
    }
    // SAFETY: the caller's call.
    let status = giver.kind.between_captures(|| unsafe { call(function, words) });
    if giver.ends_capture {
        capture::forget(words[0]);
    }
    // An `int`, in the lower half of a register.
    if status as u32 != 0 {
        account.release(wanted);
        return status;
    }
    let mut size = wanted;
    if let Size::Pitched = giver.size {
        // SAFETY: the call has succeeded.
        let pitch: usize = unsafe { *ptr::with_exposed_provenance(words[1]) };
        let more = pitch.saturating_mul(words[3]).saturating_sub(wanted);
        // It is there already.
        if account.take(more) {
            size += more;
        }
    }
    // SAFETY: the call has succeeded.
    account.note(giver.kind, unsafe { giver.given(&words) }, size, giver.end);
    status
}

/// # Safety
/// Called through a thunk with a `Call<Giver>`, for the function that it names.
#[rustfmt::skip]
unsafe extern "C" fn answer_giver(a: Word, b: Word, c: Word, d: Word, e: Word, context: usize) -> Word {
    // SAFETY: by contract; it is never freed.
    let call: &'static Call<Giver> = unsafe { &*ptr::with_exposed_provenance(context) };
    // SAFETY: the caller's call.
    unsafe { give(call.account, call.what, [a, b, c, d, e, 0, 0, 0, 0]) }
}

/// # Safety
/// Called through a thunk with a `Call<Taker>`, for the function that it names.
unsafe extern "C" fn answer_taker(a: Word, b: Word, context: usize) -> Word {
    // SAFETY: by contract; it is never freed.
    let Call { account, what }: &'static Call<Taker> =
        unsafe { &*ptr::with_exposed_provenance(context) };
    // Before another interpreter can get the same address.
    forget(what.kind, a);
    match account.address(what.function) {
        Some(function) => what
            .kind
            // SAFETY: the caller's call.
            .between_captures(|| unsafe { call(function, [a, b, 0, 0, 0, 0, 0, 0, 0]) }),
        None => NOT_FOUND,
    }
}

/// `cudaMemGetInfo(size_t *free, size_t *total)`, within the limit.
///
/// # Safety
/// Called through a thunk with an account.
unsafe extern "C" fn memory_info(free: *mut usize, total: *mut usize, context: usize) -> Word {
    static INFO: Function = Function::new("cudaMemGetInfo");
    // SAFETY: by contract; it is never freed.
    let account: &'static Account = unsafe { &*ptr::with_exposed_provenance(context) };
    let Some(function) = account.address(&INFO) else { return NOT_FOUND };
    let words = [free.expose_provenance(), total.expose_provenance(), 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the caller's call.
    let status = unsafe { call(function, words) };
    if let (0, Some((limit, used))) = (status as u32, account.limit()) {
        // SAFETY: the call has written both.
        unsafe {
            *free = (*free).min(limit - used);
            *total = (*total).min(limit);
        }
    }
    status
}

/// `cudaExtent`: a width in bytes, a height and a depth.
#[repr(C)]
#[derive(Clone, Copy)]
struct Extent([usize; 3]);

/// `cudaMalloc3D(cudaPitchedPtr *, cudaExtent)`: the structure holds the address, and the length of a row in bytes.
///
/// # Safety
/// Called through a thunk with an account.
unsafe extern "C" fn allocate_3d(result: *mut [usize; 4], extent: Extent, context: usize) -> Word {
    type Real = unsafe extern "C" fn(*mut [usize; 4], Extent) -> Word;
    static ALLOCATE: Function = Function::new("cudaMalloc3D");
    // SAFETY: by contract; it is never freed.
    let account: &'static Account = unsafe { &*ptr::with_exposed_provenance(context) };
    let Some(function) = account.address(&ALLOCATE) else { return NOT_FOUND };
    let wanted = extent.0.iter().fold(1, |size: usize, side| size.saturating_mul(*side));
    if !account.take(wanted) {
        return NO_MEMORY;
    }
    let function: *const c_void = ptr::with_exposed_provenance(function);
    // SAFETY: the caller's call.
    let status = unsafe { std::mem::transmute::<*const c_void, Real>(function)(result, extent) };
    if status as u32 != 0 {
        account.release(wanted);
        return status;
    }
    // SAFETY: the call has succeeded.
    account.note(Kind::Memory, unsafe { (*result)[0] }, wanted, &FREE);
    status
}

/// The replacements for these functions, for an interpreter with this account.
pub(super) fn answers(account: &'static Account) -> Vec<(&'static str, Interposition)> {
    /// Where a structure by value is passed on the stack no register is used for it.
    const EXTENT: usize = if cfg!(target_arch = "x86_64") { 0 } else { 1 };
    let context = ptr::from_ref(account).expose_provenance();
    let calls = account.calls.get_or_init(|| Calls::of(account));
    let givers = calls.givers.iter().map(|call| {
        let context = ptr::from_ref(call).expose_provenance();
        // SAFETY: the function takes its name's arguments in the toolkit's headers, five integers and pointers at most.
        let answer =
            unsafe { Interposition::with_context(answer_giver as *const c_void, 5, context) };
        (call.what.function.name, answer)
    });
    let takers = calls.takers.iter().map(|call| {
        let context = ptr::from_ref(call).expose_provenance();
        // SAFETY: as above, with two.
        let answer =
            unsafe { Interposition::with_context(answer_taker as *const c_void, 2, context) };
        (call.what.function.name, answer)
    });
    // SAFETY: as above. Arguments on the stack are where they are for a function without the context.
    let others = unsafe {
        [
            (
                "cudaMemGetInfo",
                Interposition::with_context(memory_info as *const c_void, 2, context),
            ),
            (
                "cudaMalloc3D",
                Interposition::with_context(allocate_3d as *const c_void, 1 + EXTENT, context),
            ),
        ]
    };
    givers.chain(takers).chain(others).collect()
}

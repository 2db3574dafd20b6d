//! Levels of forward-mode automatic differentiation (`torch::autograd::ForwardADLevel`).
//!
//! libtorch has a table of levels for the process, with room for one: a second interpreter that enters one gets
//! "Nested forward mode AD is not supported". Here each interpreter has a table. A level knows the tensors that have
//! a tangent in it, so the end of one interpreter's level clears no other's. Needed in every release.

use std::ffi::c_void;
use std::sync::Mutex;

use super::adapter::{Member, current, fail, lock, symbols};
use super::cells::Cells;
use super::cxx::CxxShared;
use super::exported::Stand;
use super::symbols::EXPORTS;

/// What stands for libtorch's functions.
pub(super) fn stands() -> [Stand; 4] {
    // SAFETY: each function does for the calling thread's interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        [
            EXPORTS.level_enter.means(enter),
            EXPORTS.level_leave.means(leave),
            EXPORTS.level.means(level),
            EXPORTS.level_or_none.means(level_or_none),
        ]
    }
}

/// Each interpreter's level.
static LEVELS: Cells<Mutex<Option<CxxShared>>> = Cells::new();

fn own() -> Option<&'static Mutex<Option<CxxShared>>> {
    current().map(|member| LEVELS.of(member))
}

/// What `std::make_shared<ForwardADLevel>(0)` allocates: the control block, and the level in it.
///
/// The level is an `std::unordered_set<std::shared_ptr<ForwardGrad>>`, an `std::mutex` and the index. The set is as
/// libstdc++'s `_Hashtable` makes an empty one: its one bucket is in the object.
#[repr(C)]
struct Block {
    vtable: *const c_void,
    owners: i32,
    observers: i32,
    buckets: *mut c_void,
    bucket_count: usize,
    before_begin: *mut c_void,
    element_count: usize,
    load_factor: f32,
    next_resize: usize,
    single_bucket: *mut c_void,
    mutex: [u64; 5],
    index: u64,
}

/// Makes a level.
fn new_level() -> CxxShared {
    let symbols = symbols();
    // SAFETY: the virtual table begins two words behind its symbol (Itanium C++ ABI, 2.5.2).
    let vtable = unsafe { symbols.level_vtable.add(2) };
    let block: *mut Block = symbols.allocator().allocate(size_of::<Block>()).cast();
    // SAFETY: `operator new` gave that many bytes, aligned for any type. The block's own function frees them.
    unsafe {
        block.write(Block {
            vtable: vtable.cast(),
            owners: 1,
            observers: 1,
            buckets: (&raw mut (*block).single_bucket).cast(),
            bucket_count: 1,
            before_begin: std::ptr::null_mut(),
            element_count: 0,
            load_factor: 1.0,
            next_resize: 0,
            single_bucket: std::ptr::null_mut(),
            mutex: [0; 5],
            index: 0,
        });
        CxxShared::of((&raw mut (*block).buckets).cast(), block.cast())
    }
}

/// `ForwardADLevel::get_next_idx()`. As in libtorch, there is one level at a time.
unsafe extern "C-unwind" fn enter() -> u64 {
    let Some(own) = own() else {
        // SAFETY: libtorch's own function.
        return unsafe { (symbols().level_enter)() };
    };
    let mut level = lock(own);
    if level.is_some() {
        drop(level);
        fail("Nested forward mode AD is not supported at the moment");
    }
    *level = Some(new_level());
    0
}

/// `ForwardADLevel::release_idx(uint64_t)`.
unsafe extern "C-unwind" fn leave(index: u64) {
    let Some(own) = own() else {
        // SAFETY: libtorch's own function and its caller's argument.
        return unsafe { (symbols().level_leave)(index) };
    };
    let level = match index {
        0 => lock(own).take(),
        _ => None,
    };
    match level {
        // Outside of the lock: the level's end clears tangents, whose ends may ask for levels.
        // SAFETY: the table's own pointer, which is gone from it.
        Some(level) => unsafe { level.drop_owner() },
        None => fail(
            "Exiting a forward AD level that is not the last that was created is not support. Ensure they are \
             released in the reverse order they were created.",
        ),
    }
}

/// Another owner of the level with this index.
fn find(own: &Mutex<Option<CxxShared>>, index: u64) -> Option<CxxShared> {
    lock(own).as_ref().filter(|_| index == 0).map(CxxShared::retain)
}

/// `ForwardADLevel::get_by_idx(uint64_t)`.
unsafe extern "C-unwind" fn level(result: *mut CxxShared, index: u64) -> *mut CxxShared {
    let Some(own) = own() else {
        // SAFETY: libtorch's own function and its caller's arguments.
        return unsafe { (symbols().level)(result, index) };
    };
    let Some(level) = find(own, index) else {
        fail(
            "Trying to access a forward AD level with an invalid index. This index was either not created or is \
             already deleted.",
        )
    };
    // SAFETY: the caller's room for the result.
    unsafe { result.write(level) };
    result
}

/// `ForwardADLevel::try_get_by_idx(uint64_t)`.
unsafe extern "C-unwind" fn level_or_none(result: *mut CxxShared, index: u64) -> *mut CxxShared {
    let Some(own) = own() else {
        // SAFETY: libtorch's own function and its caller's arguments.
        return unsafe { (symbols().level_or_none)(result, index) };
    };
    // SAFETY: the caller's room for the result.
    unsafe { result.write(find(own, index).unwrap_or(CxxShared::NULL)) };
    result
}

/// Ends the level of an interpreter that is gone.
pub(super) fn forget(member: &Member) {
    if let Some(level) = LEVELS.get(member).and_then(|own| lock(own).take()) {
        // SAFETY: the table's own pointer, which is gone from it.
        unsafe { level.drop_owner() };
    }
}

//! The threads of autograd's engines (torch/csrc/autograd/engine.cpp).
//!
//! Each interpreter has an engine, an object of its libtorch_python. An engine has threads for devices, and a pool of
//! threads for passes that are deep inside of others. libtorch starts them for the first engine that runs a pass and
//! remembers in one variable of the process that it has. The engines of further interpreters would have none: a pass on
//! a device would fail, and a deep one ends in SIGSEGV. So each engine is asked whether it has its pool.
//!
//! The threads for devices end with the interpreter. Those of the pool never end (`Engine::reentrant_thread_init`), and
//! an interpreter with such threads stays mapped.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::adapter::{Member, adapter, current, symbols};
use super::cells::Cells;
use super::exported::Stand;
use super::locks::Turns;
use super::symbols::EXPORTS;

pub(super) fn stands() -> [Stand; 1] {
    // SAFETY: the function does for the engine that it is called on what the symbol's does for the first engine.
    unsafe { [EXPORTS.engine_initialize.means(initialize)] }
}

thread_local! {
    /// The engine that this thread has last found started.
    static STARTED: Cell<*const c_void> = const { Cell::new(ptr::null()) };
}

/// The engines that have threads.
static ENGINES: Cells<AtomicPtr<c_void>> = Cells::new();

/// Ends the threads for devices of an interpreter that was finalized, as the destructor of an engine does. libtorch waits
/// ten seconds at most for each (`TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT`).
pub(super) fn forget(member: &Member) {
    let Some(engine) = ENGINES.get(member) else { return };
    let engine = engine.swap(ptr::null_mut(), Ordering::AcqRel);
    if !engine.is_null() {
        // SAFETY: an object of the interpreter's libtorch_python, which is still there.
        unsafe { (symbols().engine_stop)(engine) };
    }
}

/// `torch::autograd::Engine::initialize_device_threads_pool()`.
unsafe extern "C-unwind" fn initialize(engine: *mut c_void) {
    // It refuses passes in forked children, and starts the first engine.
    // SAFETY: the caller's argument.
    unsafe { (symbols().engine_initialize)(engine) };
    // SAFETY: the place of `thread_pool_shared_` in an engine of this release, a `std::shared_ptr`: a pointer first.
    let pool = unsafe {
        let place = engine.cast::<*mut c_void>().byte_add(adapter().layout().engine_pool);
        AtomicPtr::from_ptr(place)
    };
    let has_pool = || !pool.load(Ordering::Acquire).is_null();
    if has_pool() && STARTED.get() == engine.cast_const() {
        return;
    }
    static STARTING: Turns = Turns::new();
    // Another thread may be starting it: the pool comes before the threads for devices. These take the interpreter's GIL,
    // which whoever begins a pass has released.
    let _one = STARTING.wait();
    if !has_pool() {
        // SAFETY: the caller's argument; nobody else starts it.
        unsafe { (symbols().engine_start)(engine) };
    }
    if let Some(member) = current() {
        ENGINES.of(member).store(engine, Ordering::Release);
    }
    STARTED.set(engine);
}

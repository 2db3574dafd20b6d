//! State that libtorch keeps once and reaches through a function: the flags (`at::Context`), the default dtype, the
//! default generator of random numbers, and whether warnings are repeated.
//!
//! The functions answer for the interpreter whose code the thread runs, in replicas and in libtorch itself
//! ([`super::slots`]). A thread of libtorch's own has no interpreter; it gets the process's state, as the host does.
//! Needed in every release. Otherwise `torch.export`, which turns mkldnn off for a moment, would turn it off for
//! all, and `sdpa_kernel` would choose the kernels of other interpreters.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, Ordering};

use super::adapter::{Member, adapter, current, symbols};
use super::cells::Cells;
use super::exported::Stand;
use super::symbols::EXPORTS;

/// What stands for libtorch's functions.
pub(super) fn stands() -> [Stand; 8] {
    // SAFETY: each function does for the calling thread's interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        [
            EXPORTS.context.means(context),
            EXPORTS.generator.means(generator),
            EXPORTS.dtype.means(dtype),
            EXPORTS.dtype_as_scalar.means(dtype_as_scalar),
            EXPORTS.complex_dtype.means(complex_dtype),
            EXPORTS.dtype_set.means(set_dtype),
            EXPORTS.warn_always.means(warn_always),
            EXPORTS.warn_always_set.means(set_warn_always),
        ]
    }
}

/// One interpreter's state. What is not set is made at its first use.
#[derive(Default)]
struct State {
    /// Its `at::Context`.
    context: AtomicPtr<c_void>,
    /// Its `at::Generator`.
    generator: AtomicPtr<*mut c_void>,
    /// The `ScalarType` of its default dtype, or 0. (0 is an integer type, which cannot be the default.)
    dtype: AtomicU16,
    warn_always: AtomicBool,
}

static STATES: Cells<State> = Cells::new();

fn state() -> Option<&'static State> {
    current().map(|member| STATES.of(member))
}

/// What `place` points to, made by `make` if there is nothing. Threads that come first together make one each, and one
/// counts; nobody waits, so no child of a fork waits for a thread that it does not have.
fn once<T>(place: &AtomicPtr<T>, make: impl FnOnce() -> *mut T) -> *mut T {
    let made = place.load(Ordering::Acquire);
    if !made.is_null() {
        return made;
    }
    let new = make();
    match place.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(first) => first,
    }
}

/// Bytes for an `at::Context`. Its constructor in torch 2.11 writes fewer than 0x600.
const CONTEXT: Layout = match Layout::from_size_align(0x4000, 64) {
    Ok(layout) => layout,
    Err(_) => panic!("64 is a power of two"),
};

/// `at::globalContext()`.
unsafe extern "C-unwind" fn context() -> *mut c_void {
    let Some(state) = state() else {
        // SAFETY: libtorch's own function.
        return unsafe { (symbols().context)() };
    };
    once(&state.context, || {
        // Libraries that torch has loaded since its first function was called.
        adapter().notice_libraries();
        let place = zeroed_of_current(CONTEXT);
        // SAFETY: zeroed memory, as that of libtorch's own static object, and large enough.
        unsafe { (symbols().context_new)(place.cast()) };
        place.cast()
    })
}

/// Zeros of the calling thread's interpreter, or of the process.
fn zeroed_of_current(layout: Layout) -> *mut u8 {
    let own = current().map_or(ptr::null_mut(), |member| {
        member.allocate(layout.size() + layout.align()).map_addr(|start| match start {
            0 => 0,
            start => start.next_multiple_of(layout.align()),
        })
    });
    if !own.is_null() {
        // SAFETY: a new block with so many bytes from there.
        unsafe { own.write_bytes(0, layout.size()) };
        return own;
    }
    // SAFETY: the size is not zero.
    let place = unsafe { alloc_zeroed(layout) };
    if place.is_null() {
        handle_alloc_error(layout);
    }
    place
}

/// `at::detail::getDefaultCPUGenerator()`.
unsafe extern "C-unwind" fn generator() -> *const *mut c_void {
    let Some(state) = state() else {
        // SAFETY: libtorch's own function.
        return unsafe { (symbols().generator)() };
    };
    once(&state.generator, || {
        let generator = Box::into_raw(Box::new(std::ptr::null_mut()));
        // SAFETY: room for a generator. libtorch seeds its default one in the same way.
        unsafe { (symbols().generator_new)(generator, (symbols().random)(false)) };
        generator
    })
}

/// `c10::ScalarType` (torch/headeronly/core/ScalarType.h).
mod scalar {
    pub(super) const HALF: u16 = 5;
    pub(super) const FLOAT: u16 = 6;
    pub(super) const DOUBLE: u16 = 7;
    pub(super) const COMPLEX_HALF: u16 = 8;
    pub(super) const COMPLEX_FLOAT: u16 = 9;
    pub(super) const COMPLEX_DOUBLE: u16 = 10;
}

/// The interpreter's default dtype.
fn own_dtype() -> Option<u16> {
    let dtype = state()?.dtype.load(Ordering::Relaxed);
    Some(if dtype == 0 { scalar::FLOAT } else { dtype })
}

/// `c10::get_default_dtype()`.
unsafe extern "C-unwind" fn dtype() -> u16 {
    // SAFETY: libtorch's own function.
    own_dtype().unwrap_or_else(|| unsafe { (symbols().dtype)() })
}

/// `c10::get_default_dtype_as_scalartype()`.
unsafe extern "C-unwind" fn dtype_as_scalar() -> u8 {
    match own_dtype().and_then(|dtype| u8::try_from(dtype).ok()) {
        Some(dtype) => dtype,
        // SAFETY: libtorch's own function.
        None => unsafe { (symbols().dtype_as_scalar)() },
    }
}

/// `c10::get_default_complex_dtype()`: that of `c10::set_default_dtype` (c10/core/DefaultDtype.cpp).
unsafe extern "C-unwind" fn complex_dtype() -> u16 {
    match own_dtype() {
        Some(scalar::HALF) => scalar::COMPLEX_HALF,
        Some(scalar::DOUBLE) => scalar::COMPLEX_DOUBLE,
        Some(_) => scalar::COMPLEX_FLOAT,
        // SAFETY: libtorch's own function.
        None => unsafe { (symbols().complex_dtype)() },
    }
}

/// `c10::set_default_dtype(caffe2::TypeMeta)`.
unsafe extern "C-unwind" fn set_dtype(dtype: u16) {
    match state() {
        Some(state) => state.dtype.store(dtype, Ordering::Relaxed),
        // SAFETY: libtorch's own function and its caller's argument.
        None => unsafe { (symbols().dtype_set)(dtype) },
    }
}

/// `c10::WarningUtils::get_warnAlways()`.
unsafe extern "C-unwind" fn warn_always() -> bool {
    match state() {
        Some(state) => state.warn_always.load(Ordering::Relaxed),
        // SAFETY: libtorch's own function.
        None => unsafe { (symbols().warn_always)() },
    }
}

/// `c10::WarningUtils::set_warnAlways(bool)`.
unsafe extern "C-unwind" fn set_warn_always(always: bool) {
    match state() {
        Some(state) => state.warn_always.store(always, Ordering::Relaxed),
        // SAFETY: libtorch's own function and its caller's argument.
        None => unsafe { (symbols().warn_always_set)(always) },
    }
}

/// Leaves the place to another interpreter. Context and generator are not freed: destructors of the interpreter's
/// libraries may still refer to them.
pub(super) fn forget(member: &Member) {
    let Some(state) = STATES.get(member) else { return };
    state.context.store(std::ptr::null_mut(), Ordering::Release);
    state.generator.store(std::ptr::null_mut(), Ordering::Release);
    state.dtype.store(0, Ordering::Relaxed);
    state.warn_always.store(false, Ordering::Relaxed);
}

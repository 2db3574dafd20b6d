//! The functions by which constructors register device code, and destructors take it back.

use super::binary::DeviceSymbol;
use super::registry::{BINARY, END, KERNEL, VARIABLE, begin, forget, settle, take};
use super::runtime::{Function, Word, call, call_with_ten};
use hydrozoa_loader::Interposition;
use std::ffi::c_void;

static UNREGISTER: Function = Function::new("__cudaUnregisterFatBinary");
static INITIALISE: Function = Function::new("__cudaInitModule");

/// `void **__cudaRegisterFatBinary(void *)`.
///
/// # Safety
/// As the runtime's.
unsafe extern "C" fn register_binary(wrapper: Word) -> Word {
    match begin(wrapper) {
        Some(handle) => handle,
        None => {
            let Some(function) = BINARY.for_code_at(wrapper) else { return 0 };
            // SAFETY: the caller's call.
            unsafe { call(function, [wrapper, 0, 0, 0, 0, 0, 0, 0, 0]) }
        }
    }
}

/// `void __cudaRegisterFatBinaryEnd(void **)`.
///
/// # Safety
/// As the runtime's.
unsafe extern "C" fn register_end(handle: Word, _context: usize, caller: usize) {
    // SAFETY: the caller's call.
    let of_runtime = unsafe { settle(handle) };
    // Those that were settled have been ended too.
    if of_runtime == Some(handle)
        && let Some(function) = END.for_code_at(caller)
    {
        // SAFETY: the caller's call, with a handle of the runtime's.
        unsafe { call(function, [handle, 0, 0, 0, 0, 0, 0, 0, 0]) };
    }
}

/// `void __cudaUnregisterFatBinary(void **)`. A shared one stays.
///
/// # Safety
/// As the runtime's.
unsafe extern "C" fn unregister(handle: Word, _context: usize, caller: usize) {
    if let (Some(handle), Some(function)) = (forget(handle), UNREGISTER.for_code_at(caller)) {
        // SAFETY: the caller's call.
        unsafe { call(function, [handle, 0, 0, 0, 0, 0, 0, 0, 0]) };
    }
}

/// `void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *, dim3 *, int *)`.
///
/// # Safety
/// As the runtime's.
#[rustfmt::skip]
unsafe extern "C" fn register_kernel(
    handle: Word, a: Word, b: Word, c: Word, d: Word, e: Word, f: Word, g: Word, h: Word, i: Word,
) {
    let words = [a, b, c, d, e, f, g, h, i];
    if let Some(handle) = take(handle, DeviceSymbol::Kernel(words))
        && let Some(function) = KERNEL.for_code_at(a)
    {
        // SAFETY: the caller's call.
        unsafe { call_with_ten(function, handle, words) };
    }
}

/// `void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int)`.
///
/// # Safety
/// As the runtime's.
#[rustfmt::skip]
unsafe extern "C" fn register_variable(
    handle: Word, a: Word, b: Word, c: Word, d: Word, e: Word, f: Word, g: Word,
) {
    if let Some(handle) = take(handle, DeviceSymbol::Variable([a, b, c, d, e, f, g]))
        && let Some(function) = VARIABLE.for_code_at(a)
    {
        // SAFETY: the caller's call.
        unsafe { call(function, [handle, a, b, c, d, e, f, g, 0]) };
    }
}

/// Registers state with `function`: a managed variable, a texture, a surface.
///
/// # Safety
/// The caller's call of it.
unsafe fn register_state(function: &Function, handle: Word, words: [Word; 8]) {
    let Some(address) = function.for_code_at(words[0]) else { return };
    if let Some(handle) = take(handle, DeviceSymbol::State(address, words)) {
        let [a, b, c, d, e, f, g, h] = words;
        // SAFETY: by contract.
        unsafe { call(address, [handle, a, b, c, d, e, f, g, h]) };
    }
}

/// `char __cudaInitModule(void **)`, which is called before a managed variable is used.
///
/// # Safety
/// As the runtime's.
unsafe extern "C" fn initialise(handle: Word, _context: usize, caller: usize) -> Word {
    // SAFETY: the library has registered all of it, and runs.
    let of_runtime = unsafe { settle(handle) };
    match (of_runtime, INITIALISE.for_code_at(caller)) {
        // SAFETY: the caller's call.
        (Some(handle), Some(function)) => unsafe {
            call(function, [handle, 0, 0, 0, 0, 0, 0, 0, 0])
        },
        _ => 1,
    }
}

/// A function that registers state.
#[rustfmt::skip]
macro_rules! state {
    ($name:literal) => {{
        static FUNCTION: Function = Function::new($name);
        /// # Safety
        /// As the runtime's.
        unsafe extern "C" fn register(
            handle: Word, a: Word, b: Word, c: Word, d: Word, e: Word, f: Word, g: Word,
        ) {
            // SAFETY: the caller's call.
            unsafe { register_state(&FUNCTION, handle, [a, b, c, d, e, f, g, 0]) }
        }
        ($name, register as *const c_void)
    }};
}

/// The replacements for these functions.
pub(super) fn answers() -> Vec<(&'static str, Interposition)> {
    let by_place = [
        (BINARY.name, register_binary as *const c_void),
        (KERNEL.name, register_kernel as *const c_void),
        (VARIABLE.name, register_variable as *const c_void),
        state!("__cudaRegisterHostVar"),
        state!("__cudaRegisterManagedVar"),
        state!("__cudaRegisterTexture"),
        state!("__cudaRegisterSurface"),
    ];
    // Their argument does not point into the calling library.
    let by_caller = [
        (END.name, register_end as *const c_void),
        (UNREGISTER.name, unregister as *const c_void),
        (INITIALISE.name, initialise as *const c_void),
    ];
    // SAFETY: each takes the arguments of its name in crt/host_runtime.h, which are integers and pointers, and does with the
    // runtime what that does. More words than a function has are read from the caller's stack and not used. The last three have
    // one argument, and are told the caller.
    unsafe {
        let by_place = by_place.map(|(name, function)| (name, Interposition::function(function)));
        let by_caller =
            by_caller.map(|(name, function)| (name, Interposition::with_caller(function, 1, 0)));
        by_place.into_iter().chain(by_caller).collect()
    }
}

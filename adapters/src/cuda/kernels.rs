//! The functions that take a kernel or a variable by its name in the host's program.
//!
//! Such a name is an address in a replica: of a stub in its code, or of a variable's shadow. For shared ones the runtime knows
//! the first replica's. Code of CUDA 13 asks for a kernel's handle once and then launches by that, so launches cost the same.

use super::names::{Named, named};
use super::runtime::{Function, NOT_FOUND, Word, call};
use hydrozoa_loader::{Interposition, LeafLock, Located};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;

/// The answer to a program that writes a variable that it declared constant: `cudaErrorNotPermitted`.
const NOT_PERMITTED: Word = 800;

/// Calls `function` of the runtime that `name` belongs to, if it belongs to one.
///
/// # Safety
/// The arguments are those of the function.
#[inline]
pub(super) unsafe fn pass_on(
    function: &Function,
    of: Option<Named>,
    name: Word,
    words: [Word; 9],
) -> Word {
    let address = match of {
        Some(named) => function.address(named.runtime, |symbol| {
            Located::at(ptr::without_provenance(name))?.definition(symbol)
        }),
        None => function.for_code_at(name),
    };
    match address {
        // SAFETY: by contract.
        Some(address) => unsafe { call(address, words) },
        None => NOT_FOUND,
    }
}

/// `cudaFuncSetAttribute` with the kernel that the runtime knows. All interpreters share a kernel's limit of shared memory: the
/// largest that one has set for the current device, since each may count on its own setting.
///
/// # Safety
/// As that function.
unsafe fn set_attribute(function: &Function, words: [Word; 9]) -> Word {
    /// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
    const LARGEST_SHARED_MEMORY: c_int = 8;
    static LARGEST: LeafLock<Option<HashMap<(usize, c_int), c_int>>> = LeafLock::new(None);
    static DEVICE: Function = Function::new("cudaGetDevice");
    let [name, attribute, value, ..] = words;
    let of = named(name);
    let Some(Named { real, is_shared: true, .. }) = of else {
        // SAFETY: the caller's call.
        return unsafe { pass_on(function, of, name, words) };
    };
    let mut to_runtime = words;
    to_runtime[0] = real;
    if attribute as c_int != LARGEST_SHARED_MEMORY {
        // SAFETY: the caller's call.
        return unsafe { pass_on(function, of, name, to_runtime) };
    }
    let mut device: c_int = 0;
    // SAFETY: the function writes an `int`.
    unsafe {
        pass_on(&DEVICE, of, name, [(&raw mut device).expose_provenance(), 0, 0, 0, 0, 0, 0, 0, 0])
    };
    let (key, value) = ((real, device), value as c_int);
    let largest = |all: &mut Option<HashMap<_, _>>| all.get_or_insert_default().get(&key).copied();
    if LARGEST.with(largest).is_some_and(|largest| value <= largest) {
        return 0;
    }
    // SAFETY: the caller's call.
    let status = unsafe { pass_on(function, of, name, to_runtime) };
    if status as c_int == 0 {
        LARGEST.with(|all| {
            let entry = all.get_or_insert_default().entry(key).or_insert(value);
            *entry = value.max(*entry);
        });
    }
    status
}

/// An answer for a function that has a name as this argument.
#[rustfmt::skip]
macro_rules! taking {
    ($symbol:literal, $argument:literal) => {
        taking!($symbol, |function, words| {
            let name: Word = words[$argument];
            let of = named(name);
            if let Some(named) = of {
                words[$argument] = named.real;
            }
            // SAFETY: the caller's call.
            unsafe { pass_on(function, of, name, words) }
        })
    };
    // One that writes a variable.
    ($symbol:literal, $argument:literal, write) => {
        taking!($symbol, |function, words| {
            let name: Word = words[$argument];
            match named(name) {
                Some(Named { is_shared: true, .. }) => NOT_PERMITTED,
                // SAFETY: the caller's call.
                of => unsafe { pass_on(function, of, name, words) },
            }
        })
    };
    ($symbol:literal, |$function:ident, $words:ident| $body:expr) => {{
        static FUNCTION: Function = Function::new($symbol);
        /// # Safety
        /// As the runtime's.
        unsafe extern "C" fn answer(
            a: Word, b: Word, c: Word, d: Word, e: Word, f: Word, g: Word, h: Word, i: Word,
        ) -> Word {
            #[allow(unused_mut, reason = "some answers change an argument")]
            let mut $words = [a, b, c, d, e, f, g, h, i];
            let $function = &FUNCTION;
            $body
        }
        ($symbol, answer as *const c_void)
    }};
}
pub(super) use taking;

/// The replacements for these functions.
pub(super) fn answers() -> Vec<(&'static str, Interposition)> {
    let functions = [
        taking!("__cudaGetKernel", 1),
        taking!("cudaGetKernel", 1),
        taking!("cudaGetFuncBySymbol", 1),
        taking!("cudaLaunchKernel", 0),
        taking!("cudaLaunchKernel_ptsz", 0),
        taking!("cudaLaunchCooperativeKernel", 0),
        taking!("cudaLaunchCooperativeKernel_ptsz", 0),
        taking!("cudaLaunchKernelExC", 1),
        taking!("cudaLaunchKernelExC_ptsz", 1),
        taking!("cudaFuncGetAttributes", 1),
        taking!("cudaFuncSetAttribute", |function, words| {
            // SAFETY: the caller's call.
            unsafe { set_attribute(function, words) }
        }),
        taking!("cudaFuncSetCacheConfig", 0),
        taking!("cudaFuncSetSharedMemConfig", 0),
        taking!("cudaFuncGetName", 1),
        taking!("cudaFuncGetParamInfo", 0),
        taking!("cudaOccupancyMaxActiveBlocksPerMultiprocessor", 1),
        taking!("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 1),
        taking!("cudaOccupancyAvailableDynamicSMemPerBlock", 1),
        taking!("cudaOccupancyMaxPotentialClusterSize", 1),
        taking!("cudaOccupancyMaxActiveClusters", 1),
        taking!("cudaGetSymbolAddress", 1),
        taking!("cudaGetSymbolSize", 1),
        taking!("cudaMemcpyToSymbol", 0, write),
        taking!("cudaMemcpyToSymbol_ptds", 0, write),
        taking!("cudaMemcpyToSymbolAsync", 0, write),
        taking!("cudaMemcpyToSymbolAsync_ptsz", 0, write),
        taking!("cudaMemcpyFromSymbol", 1),
        taking!("cudaMemcpyFromSymbol_ptds", 1),
        taking!("cudaMemcpyFromSymbolAsync", 1),
        taking!("cudaMemcpyFromSymbolAsync_ptsz", 1),
        taking!("cudaGraphAddMemcpyNodeToSymbol", 4, write),
        taking!("cudaGraphMemcpyNodeSetParamsToSymbol", 1, write),
        taking!("cudaGraphExecMemcpyNodeSetParamsToSymbol", 2, write),
        taking!("cudaGraphAddMemcpyNodeFromSymbol", 5),
        taking!("cudaGraphMemcpyNodeSetParamsFromSymbol", 2),
        taking!("cudaGraphExecMemcpyNodeSetParamsFromSymbol", 3),
    ];
    // SAFETY: each takes the arguments of its name in cuda_runtime_api.h as words, and passes them on. A `dim3` by value is two
    // words (psABI of x86-64, "Parameter Passing"; AAPCS64, 6.8.2). More words than a function has are read from the caller's
    // stack and not used.
    functions.map(|(name, function)| (name, unsafe { Interposition::function(function) })).into()
}

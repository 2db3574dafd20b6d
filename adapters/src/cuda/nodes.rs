//! Nodes of graphs that are kernels: the functions that take a kernel in a structure.
//!
//! The structures are the caller's, so the runtime gets a copy of one with a kernel. It returns the first replica's name, which
//! serves all of these functions as well.

use super::kernels::{pass_on, taking};
use super::names::{Named, named};
use super::runtime::{Function, Word};
use hydrozoa_loader::Interposition;
use std::ffi::{c_int, c_void};
use std::ptr;

/// `cudaKernelNodeParams`: the kernel is the first member.
type KernelParameters = [Word; 7];

/// `cudaGraphNodeParams`: the type is the first member, and behind 16 bytes `cudaKernelNodeParamsV2` begins with the kernel.
type NodeParameters = [Word; 32];

/// `cudaGraphNodeTypeKernel`.
const KERNEL: c_int = 0;

/// The kernel among parameters, if they have one.
trait Parameters: Copy {
    fn kernel(&mut self) -> Option<&mut Word>;
}

impl Parameters for KernelParameters {
    fn kernel(&mut self) -> Option<&mut Word> {
        Some(&mut self[0])
    }
}

impl Parameters for NodeParameters {
    fn kernel(&mut self) -> Option<&mut Word> {
        (self[0] as c_int == KERNEL).then_some(&mut self[2])
    }
}

/// Calls `function` with a copy of the parameters at `words[place]` that holds the kernel's real name.
///
/// # Safety
/// The caller's call of it, whose argument is of type `P` or null.
unsafe fn with_parameters<P: Parameters>(
    function: &Function,
    mut words: [Word; 9],
    place: usize,
) -> Word {
    let given: *mut P = ptr::with_exposed_provenance_mut(words[place]);
    // SAFETY: by contract.
    let mut parameters = (unsafe { given.as_ref() }).copied();
    let kernel = parameters.as_mut().and_then(P::kernel);
    let name = kernel.as_ref().map_or(0, |kernel| **kernel);
    let of = named(name);
    if let (Some(Named { real, .. }), Some(kernel)) = (of, kernel) {
        *kernel = real;
        words[place] =
            parameters.as_mut().map_or(0, |copy| ptr::from_mut(copy).expose_provenance());
    }
    // SAFETY: the caller's call.
    unsafe { pass_on(function, of, name, words) }
}

/// An answer for a function whose parameters are this argument.
macro_rules! taking_parameters {
    ($symbol:literal, $type:ty, $argument:expr) => {
        taking!($symbol, |function, words| {
            let place: fn(&[Word; 9]) -> usize = $argument;
            // SAFETY: the caller's call.
            unsafe { with_parameters::<$type>(function, words, place(&words)) }
        })
    };
}

/// The index of `cudaGraphAddNode`'s parameters. CUDA 13 inserted edge data in front of the number of dependencies. That number
/// is smaller than any address.
fn of_added_node(words: &[Word; 9]) -> usize {
    const LOWEST_ADDRESS: Word = 1 << 16;
    if words[4] >= LOWEST_ADDRESS { 4 } else { 5 }
}

/// The replacements for these functions.
pub(super) fn answers() -> Vec<(&'static str, Interposition)> {
    let functions = [
        taking_parameters!("cudaGraphAddKernelNode", KernelParameters, |_| 4),
        taking_parameters!("cudaGraphKernelNodeSetParams", KernelParameters, |_| 1),
        taking_parameters!("cudaGraphExecKernelNodeSetParams", KernelParameters, |_| 2),
        taking_parameters!("cudaGraphAddNode", NodeParameters, of_added_node),
        taking_parameters!("cudaGraphAddNode_v2", NodeParameters, |_| 5),
        taking_parameters!("cudaGraphNodeSetParams", NodeParameters, |_| 1),
        taking_parameters!("cudaGraphExecNodeSetParams", NodeParameters, |_| 2),
    ];
    // SAFETY: each takes the arguments of its name in cuda_runtime_api.h, which are integers and pointers, and passes them on.
    // More words than a function has are read from the caller's stack and not used.
    functions.map(|(name, function)| (name, unsafe { Interposition::function(function) })).into()
}

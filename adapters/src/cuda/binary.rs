//! Which fat binaries can be registered once for all interpreters.
//!
//! A fat binary has kernels and variables. Kernels are code. A variable lives on the device, where kernels and
//! `cudaMemcpyToSymbol` write it: then it is state, and each interpreter has its own. But 442 of the
//! 444 fat binaries of torch 2.11's libtorch_cuda have variables, and 12,324 of these 12,884 are constants of CUDA's headers (tags of
//! thrust and `cuda::std`). The compiler tells them apart: the host's shadow of a variable is an object of the host's program with the same
//! qualifiers, so that of a constant lies in a read-only segment. Such a variable holds no state.
//!
//! That makes 480 of 544 fat binaries of torch 2.11 (libtorch_cuda, libtorch_cuda_linalg, libtorch_nvshmem) shareable, and 22,196
//! of 23,177 kernels. Of the others 62 have the tables of curand, which are not declared constant, one has the numbers that cuBLAS
//! reads its factors from, and one is nvshmem's.

use super::runtime::Word;
use hydrozoa_loader::Located;
use std::ffi::c_void;
use std::ptr;

/// The argument of `__cudaRegisterFatBinary` (fatbinary_section.h).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrapper {
    magic: u32,
    version: u32,
    data: usize,
    /// The name of a file, or none.
    name: usize,
}

const MAGIC: u32 = 0x4662_43b1;

/// The version without prelinked parts.
const SELF_CONTAINED: u32 = 1;

impl Wrapper {
    /// The same for code that has been moved by `distance`.
    pub(super) fn moved(self, distance: usize) -> Self {
        Self { data: self.data.wrapping_add(distance), name: moved(self.name, distance), ..self }
    }
}

fn moved(pointer: usize, distance: usize) -> usize {
    if pointer == 0 { 0 } else { pointer.wrapping_add(distance) }
}

/// A kernel or a variable, by the arguments with which it is registered, behind the handle.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeviceSymbol {
    /// `hostFun`, `deviceFun`, `deviceName`, `thread_limit`, and five pointers that no compiler sets any more.
    Kernel([Word; 9]),
    /// `hostVar`, `deviceAddress`, `deviceName`, `ext`, `size`, `constant`, `global`.
    Variable([Word; 7]),
    /// State that the function at this address registers: managed variables, textures, surfaces.
    State(usize, [Word; 8]),
}

impl DeviceSymbol {
    /// The address by which the host's program names it.
    pub(super) fn host(&self) -> usize {
        self.pointers()[0]
    }

    /// The pointers into the library, first the address by which the host's program names it.
    fn pointers(&self) -> &[Word] {
        match self {
            Self::Kernel(words) => &words[..3],
            Self::Variable(words) => &words[..3],
            Self::State(_, words) => &words[..1],
        }
    }

    /// The same kernel or variable of code that has been moved by `distance`.
    pub(super) fn moved(mut self, distance: usize) -> Self {
        let pointers = match &mut self {
            Self::Kernel(words) => &mut words[..3],
            Self::Variable(words) => &mut words[..3],
            Self::State(..) => &mut [],
        };
        pointers.iter_mut().for_each(|pointer| *pointer = moved(*pointer, distance));
        self
    }

    fn is_constant(&self, replica: &Located) -> bool {
        let is_plain = match self {
            Self::Kernel(words) => words[4..] == [0; 5],
            // A variable defined elsewhere does not belong to this binary. The argument is an `int`.
            Self::Variable(words) => words[3] as u32 == 0,
            Self::State(..) => false,
        };
        is_plain && self.pointers().iter().all(|pointer| replica.has_constant(address(*pointer)))
    }
}

/// Whether what is registered at `wrapper` of `replica` is the same for all replicas, and stays where it is.
///
/// # Safety
/// `wrapper` is what the library has registered.
pub(super) unsafe fn is_shareable(
    replica: &Located,
    wrapper: *const Wrapper,
    entries: &[DeviceSymbol],
) -> bool {
    // SAFETY: by contract.
    let wrapper = unsafe { *wrapper };
    (wrapper.magic, wrapper.version) == (MAGIC, SELF_CONTAINED)
        && replica.has_constant(address(wrapper.data))
        && (wrapper.name == 0 || replica.has_constant(address(wrapper.name)))
        // Offsets are kept in 32 bits.
        && entries.iter().all(|entry| {
            entry.is_constant(replica) && u32::try_from(entry.host() - replica.base()).is_ok()
        })
}

fn address(word: Word) -> *const c_void {
    ptr::without_provenance(word)
}

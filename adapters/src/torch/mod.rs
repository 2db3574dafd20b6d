//! torch. An interpreter has a replica of its C++ libraries, of any release.
//!
//! | part | what it does | why | seen with |
//! |---|---|---|---|
//! | [`fake_device`] | the stand-in for a missing CUDA device outlives the thread that needed it first | threads of the application come and go | 2.11, built for CUDA, without a device |
//! | [`storages`] | the memory of tensors on the CPU is the process's malloc's | other interpreters and devices use it ([`storages`]) | 2.11 |
//!
//! Another release may lack the functions named here: then the part has no effect.

mod fake_device;

pub(crate) use fake_device::FakeDevice;

use crate::Answer;
use hydrozoa_loader::Interposition;
use std::ffi::c_void;

/// The memory of tensors on the CPU, which c10 takes by `posix_memalign` (c10/core/impl/alloc_cpu.cpp), is the process's malloc's and not
/// the interpreter's heap's. Movables share it with other interpreters, whose threads write it while its own is settled, and
/// `cudaHostRegister` gives its pages to a device. The interpreter's limit does not count it. `free` knows it by its address.
pub(crate) fn storages() -> Answer {
    // SAFETY: the C library's function of that name.
    let interposition = unsafe { Interposition::function(libc::posix_memalign as *const c_void) };
    Answer { library: Some("libc10.so".to_owned()), symbol: "posix_memalign", interposition }
}

//! torch. An interpreter has a replica of its C++ libraries, of any release.
//!
//! | part | what it does | why | seen with |
//! |---|---|---|---|
//! | [`fake_device`] | the stand-in for a missing CUDA device outlives the thread that needed it first | threads of the application come and go | 2.11, built for CUDA, without a device |
//! | [`BLOCKS`] | two libraries take blocks of C functions from the interpreter's heap | they end with the interpreter, and settle with it: 1.3 MiB | 2.11 |
//!
//! Another release may lack what is named here: then the part has no effect.

mod fake_device;

pub(crate) use fake_device::FakeDevice;

/// Functions of C that take from an interpreter's heap, each in one library of which it is known that it frees itself what they give:
/// the library's soname, and the function.
///
/// - `strdup` of libtorch_python: pybind11 copies the names, the signatures and the documentation of all functions by it, and
///   frees them itself (`cpp_function::destruct`).
/// - `malloc` of libtorch_cpu: MKL's buffers of a thread, which it frees when a program asks for that, and texts of cpuinfo.
///   Storages of tensors and oneDNN's memory come from `posix_memalign`.
pub const BLOCKS: [(&str, &str); 2] =
    [("libtorch_python.so", "strdup"), ("libtorch_cpu.so", "malloc")];

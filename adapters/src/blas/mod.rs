//! BLAS and OpenMP, which exist once in a process.
//!
//! The rules buy one pool of threads for all interpreters. Otherwise each further one would bring as many threads as the machine
//! has cores, less one. Seen with the OpenBLAS of numpy 2.2 to 2.4, MKL in torch 2.11, and the OpenMP of LLVM in the wheels of
//! docs/libraries.md.
//!
//! - **BLAS**: the results depend on the arguments and on the number of threads alone. The library keeps only a pool
//!   of threads and buffers, which it guards by locks (OpenBLAS, driver/others/blas_server.c and memory.c; MKL's developer
//!   guide, "Intel oneMKL and threads"). Its number of threads is one setting for the process.
//! - **OpenMP**: the same. LLVM's and Intel's runtime end a process in which they find a second one of them
//!   (openmp/runtime/src/kmp_runtime.cpp, `__kmp_register_library_startup`). The loader's own rules share libgomp.

use crate::LibraryRule;
use hydrozoa_loader::Decision;

pub(crate) const BLAS: LibraryRule = LibraryRule {
    patterns: &[
        "*/libopenblas*.so*",
        "*/libscipy_openblas*.so*",
        "*/libmkl_*.so*",
        "*/libblas.so*",
        "*/libblas64.so*",
        "*/libcblas.so*",
        "*/liblapack.so*",
        "*/liblapack64.so*",
        "*/liblapacke.so*",
        "*/libblis*.so*",
        "*/libflexiblas*.so*",
    ],
    decision: Decision::Symbols,
    reason: "one BLAS, and its threads, serve the whole process",
};

pub(crate) const OPENMP: LibraryRule = LibraryRule {
    patterns: &["*/libiomp5*.so*", "*/libomp.so*", "*/libomp-*.so*"],
    decision: Decision::Symbols,
    reason: "one OpenMP runtime, and its threads, serve the whole process",
};

//! Libraries that serve a process once, by their nature: MPI and the Java VM.
//!
//! The rules buy that a second interpreter can use them: without them MPI answers it by an error, UCX ends the process, and the Java
//! VM does not start. Seen with jpype1 1.7.1, and the wheels of mpi4py and UCX of November 2026.
//!
//! - **MPI**: a process is one rank and calls `MPI_Init` once (MPI 4.1, 11.2). UCX below it rewrites the code of the C
//!   library's `mmap` and its kin (ucm/bistro). A second UCX that does so ends in SIGSEGV.
//! - **The Java VM**: JNI allows one in a process. It finds null pointers by its handler of SIGSEGV.

use crate::LibraryRule;
use hydrozoa_loader::Decision;

pub(crate) const MPI: LibraryRule = LibraryRule {
    patterns: &["*/libmpi.so*", "*/libmpi_*.so*", "*/libmpich*.so*", "*/libuc[mpst].so*"],
    decision: Decision::Symbols,
    reason: "a process is one rank of MPI",
};

pub(crate) const JAVA: LibraryRule = LibraryRule {
    patterns: &["*/libjvm.so*"],
    decision: Decision::Symbols,
    reason: "a process has one Java VM",
};

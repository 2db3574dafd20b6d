//! Which libraries each interpreter has for itself, and which exist once.
//!
//! Bytes are shared, state is not. Text and constants of a library are in memory once however many
//! interpreters load it. Its variables are another matter: plain python has one of them for each interpreter,
//! because it has one interpreter. So an interpreter gets its own replica of every library that it brings with it, wherever
//! the file lies: in its environment, in the system's directories, and what its code loads by ctypes, cffi or `dlopen`.
//!
//! | file | decided by |
//! |---|---|
//! | the C library's family, libgcc_s, libgomp; libstdc++ | the loader's own rules: shared; replicated |
//! | a file that the user has a pattern for | [`LibraryRules`] |
//! | [`REFUSED`] | not loaded |
//! | [`SHARED`], with what they need | their symbols: shared, unless they need one of the interpreter's |
//! | what the program began with, unless that needs libstdc++ | their symbols, likewise |
//! | any other file | replicated |
//!
//! docs/decisions.md has the reasons, and what the rule costs.

use std::sync::{Mutex, PoisonError};

use hydrozoa_loader::{Class, Decision, Loader, Policy};

use crate::heap;
use crate::{Error, Result};

/// Libraries that work in a process of their own only, and why.
///
/// - **memray** writes its own functions over each reference to `malloc`, `free`, `mmap` and `dlopen` in the process: those of the
///   application and of all interpreters. Its functions call the C library's, and not what answers for that in an interpreter,
///   and the references stay so when it has ended (its src/memray/_memray/elf_shenanigans.cpp and hooks.h).
const REFUSED: [(&str, &str); 1] = [(
    "*/memray/_memray.*so",
    "memray takes over the memory of the whole process, which has other interpreters and the application in it; run the \
     program in python itself to profile it, and see Interpreter::memory for what an interpreter takes",
)];

/// Libraries that an interpreter may bring and that exist once all the same.
struct Shared {
    patterns: &'static [&'static str],
    /// Why one for all is right, and why one for each is not.
    reason: &'static str,
}

/// Each entry is either harmless or bound to the process by its nature.
///
/// - **BLAS**: the results depend on the arguments and on the number of threads alone. What the library keeps is a pool
///   of threads and buffers, which it guards by locks (OpenBLAS, driver/others/blas_server.c and memory.c; MKL's developer
///   guide, "Intel oneMKL and threads"). A copy for each interpreter would bring as many threads as the machine has cores.
///   Its number of threads is one setting for the process.
/// - **OpenMP**: the same. LLVM's and Intel's runtime end a process in which they find a second one of them
///   (openmp/runtime/src/kmp_runtime.cpp, `__kmp_register_library_startup`). The loader's own rules share libgomp.
/// - **CUDA**: a process has one primary context on each device (CUDA driver API, "Primary context management"),
///   and interpreters pass memory of it to each other. The driver's libraries for graphics and video are parts of it.
/// - **MPI**: a process is one rank and calls `MPI_Init` once (MPI 4.1, 11.2). UCX below it rewrites the code of the C
///   library's `mmap` and its kin (ucm/bistro). A second UCX that does so ends in SIGSEGV.
/// - **The Java VM**: JNI allows one in a process. It finds null pointers by its handler of SIGSEGV.
const SHARED: [Shared; 5] = [
    Shared {
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
        reason: "one BLAS, and its threads, serve the whole process",
    },
    Shared {
        patterns: &["*/libiomp5*.so*", "*/libomp.so*", "*/libomp-*.so*"],
        reason: "one OpenMP runtime, and its threads, serve the whole process",
    },
    Shared {
        patterns: &[
            "*-packages/nvidia/*.so*",
            "*/libcuda.so*",
            "*/libcudart*.so*",
            "*/libcublas*.so*",
            "*/libcudnn*.so*",
            "*/libcufft*.so*",
            "*/libcurand*.so*",
            "*/libcusolver*.so*",
            "*/libcusparse*.so*",
            "*/libcupti*.so*",
            "*/libnccl*.so*",
            "*/libnvrtc*.so*",
            "*/libnvJitLink*.so*",
            "*/libnvToolsExt*.so*",
            "*/libnvidia-*.so*",
            "*/libnvcuvid.so*",
            "*/libnvoptix.so*",
            "*/lib*_nvidia.so*",
        ],
        reason: "the process has one CUDA context on each device",
    },
    Shared {
        patterns: &["*/libmpi.so*", "*/libmpi_*.so*", "*/libmpich*.so*", "*/libuc[mpst].so*"],
        reason: "a process is one rank of MPI",
    },
    Shared { patterns: &["*/libjvm.so*"], reason: "a process has one Java VM" },
];

/// Rules of a user for libraries: which exist once for all interpreters, and which each interpreter has for
/// itself.
///
/// Patterns are those of the [`glob`](https://docs.rs/glob) crate on the library's path without symbolic links;
/// `*` also matches `/`. A later rule stands before an earlier one. The rules stand before the runtime's own, and
/// behind those for the C library's family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryRules {
    rules: Vec<(String, Decision)>,
}

impl LibraryRules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Libraries whose path matches exist once for all interpreters, and so do those that they need. A library that
    /// uses the interpreter's own symbols is replicated all the same: there is no one interpreter that it could
    /// use.
    #[must_use]
    pub fn share(mut self, pattern: impl Into<String>) -> Self {
        self.rules.push((pattern.into(), Decision::Symbols));
        self
    }

    /// Each interpreter has its own replica of the libraries whose path matches.
    #[must_use]
    pub fn replicate(mut self, pattern: impl Into<String>) -> Self {
        self.rules.push((pattern.into(), Class::Replicate.into()));
        self
    }

    /// Adds `rules` behind those that are there.
    pub(crate) fn extend(&mut self, rules: &LibraryRules) {
        self.rules.extend_from_slice(&rules.rules);
    }

    /// The rules of interpreters' domains.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a pattern that is none.
    pub(crate) fn policy(&self) -> Result<Policy> {
        let mut policy = Policy::default();
        // The loader's own rules stay in front: a name that those give to the system is decided without a look at
        // directories.
        for (pattern, decision) in self.rules.iter().rev() {
            Policy::check(pattern).map_err(|problem| {
                Error::Configuration(format!(
                    "the pattern {pattern:?} of a library: {problem}; LibraryRules describes the form"
                ))
            })?;
            let reason = match decision {
                Decision::Class(_) => format!("{pattern:?} is to be replicated"),
                _ => format!("{pattern:?} is to be shared"),
            };
            policy = policy.with_last(pattern, *decision, reason);
        }
        for (pattern, reason) in REFUSED {
            policy = policy.with_last(pattern, Decision::Refused, reason);
        }
        for Shared { patterns, reason } in SHARED {
            for pattern in patterns {
                policy = policy.with_last(pattern, Decision::Symbols, reason);
            }
        }
        Ok(policy)
    }
}

/// The loader for `rules`: one for each set of rules in the process, so that all pools with the same rules share what is
/// shared.
pub(crate) fn loader(rules: &LibraryRules) -> Result<Loader> {
    static LOADERS: Mutex<Vec<(LibraryRules, Loader)>> = Mutex::new(Vec::new());
    let mut loaders = LOADERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, loader)) = loaders.iter().find(|(known, _)| known == rules) {
        return Ok(loader.clone());
    }
    let mut builder = Loader::builder().policy(rules.policy()?);
    for (symbol, interposition) in heap::functions() {
        builder = builder.interpose_everywhere(symbol, interposition);
    }
    let made = builder.build()?;
    loaders.push((rules.clone(), made.clone()));
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn decision(rules: &LibraryRules, path: &str) -> Option<Decision> {
        rules.policy().unwrap().decision(Path::new(path)).map(|decision| decision.0)
    }

    #[test]
    fn what_lies_in_the_system_s_directories_is_no_exception() {
        let of = |name: &str| decision(&LibraryRules::new(), &format!("/usr/lib/{name}"));
        for name in ["libreadline.so.8", "libcrypto.so.3", "libltdl.so.7", "x/libtorch_cpu.so.2.6"]
        {
            assert_eq!(of(name), None, "{name}");
        }
        assert_eq!(of("libstdc++.so.6.0.30"), Some(Decision::Apart));
        assert_eq!(of("libm.so.6"), Some(Class::System.into()));
        assert_eq!(of("x/openblas-pthread/libblas.so.3"), Some(Decision::Symbols));
    }

    #[test]
    fn what_belongs_to_the_process_is_shared_and_its_namesakes_are_not() {
        for name in [
            "numpy.libs/libscipy_openblas64_-ab12.so",
            "nvidia/cu13/lib/libcublas.so.13",
            "torch/lib/libcudart-1234.so.12",
            "x.libs/libomp-a1.so.5",
        ] {
            let found = decision(&LibraryRules::new(), &format!("/v/site-packages/{name}"));
            assert_eq!(found, Some(Decision::Symbols), "{name}");
        }
        for other in [
            "/data/nvidia/venv/lib/python3.11/site-packages/x.libs/libx.so",
            "/v/lib/libomptarget.so",
            "/v/site-packages/pyarrow/libparquetry.txt",
            "/v/torchaudio/lib/libtorchaudio.so",
            "/v/libc100.so",
        ] {
            assert_eq!(decision(&LibraryRules::new(), other), None, "{other}");
        }
    }

    #[test]
    fn what_takes_over_the_process_is_refused_unless_a_user_wants_it() {
        let memray = "/v/site-packages/memray/_memray.cpython-312-x86_64-linux-gnu.so";
        assert_eq!(decision(&LibraryRules::new(), memray), Some(Decision::Refused));
        assert_eq!(decision(&LibraryRules::new(), "/v/memray/_test_utils.so"), None);
        let wanted = LibraryRules::new().replicate("*/_memray*");
        assert_eq!(decision(&wanted, memray), Some(Class::Replicate.into()));
    }

    #[test]
    fn rules_of_a_user_stand_behind_the_c_library_s_and_before_all_others() {
        let rules = LibraryRules::new()
            .replicate("*")
            .share("*/libhdf5*")
            .share("*/libx.so")
            .replicate("/opt/*/libx.so");
        let class = |path: &str| decision(&rules, path);
        assert_eq!(class("/usr/lib/libc.so.6"), Some(Class::System.into()));
        assert_eq!(class("/usr/lib/libhdf5.so.310"), Some(Decision::Symbols));
        assert_eq!(class("/v/numpy.libs/libscipy_openblas.so"), Some(Class::Replicate.into()));
        assert_eq!(class("/v/libx.so"), Some(Decision::Symbols));
        assert_eq!(class("/opt/v/libx.so"), Some(Class::Replicate.into()));
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        let error = LibraryRules::new().share("a/***/b").policy().unwrap_err().to_string();
        assert!(error.contains("a/***/b") && error.contains("wildcards"), "{error}");
    }
}

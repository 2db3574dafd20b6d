//! torch's own C++ libraries, known by their files' names, and what each policy makes of them.
//!
//! The loader asks when it is about to load such a file, wherever the file was found: in a wheel, beside a
//! package that a path configuration file names, or in the system's folder of libraries.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hydrozoa_loader::{Class, Decision, Verdict};

use super::adapter;

/// Policy `isolated`: every interpreter has its own. Other libraries of torch's wheels keep their rules: OpenMP's
/// threads and CUDA's driver serve the whole process.
pub(crate) fn isolated(path: &Path) -> Option<Verdict> {
    is_torch_s(path).then_some(Verdict::Decision(
        Decision::Class(Class::Replicate),
        "policy isolated: torch is private",
    ))
}

/// Policy `shared`: the libraries of the torch that the adapter serves exist once. libtorch_python is written for
/// one interpreter, and its symbols say so. The domain of the interpreter answers libtorch_python for that one
/// libtorch, so another torch is refused before anything of it runs.
pub(crate) fn shared(path: &Path) -> Option<Verdict> {
    if !is_torch_s(path) {
        return None;
    }
    let served = adapter::release()?;
    if !served.has_library(path) {
        return Some(Verdict::Refuse(format!(
            "the interpreters of this pool share torch {served} (policy `shared`), and this file belongs to another \
             torch; start the pool in an environment where it is the first torch on sys.path, or use policy `isolated`"
        )));
    }
    let decision = match stem(path) {
        Some("libtorch_python") => Decision::Class(Class::Replicate),
        // Libraries of operators register with libtorch when they are loaded, and it knows each operator once.
        _ => Decision::SymbolsOfUsers,
    };
    Some(Verdict::Decision(
        decision,
        "policy shared: one libtorch, and a libtorch_python for each interpreter",
    ))
}

/// Policy `shared` in an environment where no torch was found at the start: there is no adapter for a torch that
/// is found later, so each interpreter gets its own.
pub(crate) fn unshared(path: &Path) -> Option<Verdict> {
    static WARNED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    if !is_torch_s(path) {
        return None;
    }
    if stem(path) == Some("libtorch_cpu")
        && adapter::lock(&WARNED).get_or_insert_default().insert(path.to_owned())
    {
        tracing::warn!(
            "{}: each interpreter loads its own copy (policy `isolated`). Policy `shared` was asked for, but the \
             interpreters' python found no torch when they started, so nothing is prepared to share this one",
            path.display()
        );
    }
    Some(Verdict::Decision(
        Decision::Class(Class::Replicate),
        "no torch was found when the pool started: torch is private",
    ))
}

/// The file's name in front of `.so`.
pub(super) fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let (stem, rest) = name.split_once(".so")?;
    (rest.is_empty() || rest.starts_with('.')).then_some(stem)
}

/// Whether the file is one of the libraries that torch is made of. Packages that extend torch have names like
/// `libtorchaudio`: these are not among them.
fn is_torch_s(path: &Path) -> bool {
    stem(path).is_some_and(|stem| {
        matches!(stem, "libtorch" | "libshm" | "libc10")
            || ["libtorch_", "libc10_", "libcaffe2", "libaoti"]
                .iter()
                .any(|beginning| stem.starts_with(beginning))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torch_s_libraries_are_known_by_name_in_every_folder() {
        for name in [
            "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so",
            "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.2.6",
            "/usr/lib/x86_64-linux-gnu/libc10.so.2.6",
            "/opt/x/libtorch.so",
            "/opt/x/libc10_cuda.so",
            "/opt/x/libtorch_python.so",
            "/opt/x/libcaffe2_nvrtc.so",
            "/opt/x/libaoti_custom_ops.so",
            "/opt/x/libshm.so",
        ] {
            let verdict = isolated(Path::new(name));
            let private = Decision::Class(Class::Replicate);
            assert!(
                matches!(verdict, Some(Verdict::Decision(found, _)) if found == private),
                "{name}"
            );
        }
        for name in [
            "/x/torchaudio/lib/libtorchaudio.so",
            "/x/torch/lib/libgomp.so.1",
            "/x/torchvision/_C.so",
            "/x/libtorch_cpu.sol",
            "/x/libc100.so",
            "/x/torch",
        ] {
            assert_eq!(isolated(Path::new(name)), None, "{name}");
        }
    }
}

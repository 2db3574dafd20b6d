//! The device code of interpreters' libraries, in a process where no device can run it.
//!
//! A library that nvcc has compiled has constructors that tell CUDA's runtime each of its kernels and variables
//! (`__cudaRegisterFunction`, crt/host_runtime.h of the toolkit). The runtime is one for the process and keeps a record of
//! each in malloc: 82,000 blocks, 6.9 MiB, for each replica of torch 2.11's libraries. It looks them up when a kernel is
//! launched. Without a driver every launch fails before that, with `cudaErrorInsufficientDriver`. So libraries of
//! interpreters register nothing in a process that has no driver when its first interpreter starts.

use hydrozoa_loader::{Interposition, Loader};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::OnceLock;

/// The driver, as the runtime asks the system's loader for it.
const DRIVER: &str = "libcuda.so.1";

/// The functions that constructors and destructors call. All but the first give nothing.
const FUNCTIONS: [&str; 9] = [
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaUnregisterFatBinary",
    "__cudaRegisterFunction",
    "__cudaRegisterVar",
    "__cudaRegisterHostVar",
    "__cudaRegisterManagedVar",
    "__cudaRegisterTexture",
    "__cudaRegisterSurface",
];

/// Whether device code may ever run in this process, as it was when its first interpreter started.
pub(super) fn has_device(loader: &Loader) -> bool {
    static MAY_RUN: OnceLock<bool> = OnceLock::new();
    *MAY_RUN.get_or_init(|| may_run(loader))
}

/// Replacements for the functions that register device code, where no such code can run, for all interpreters of the
/// process.
pub(super) fn answers() -> Vec<(&'static str, Interposition)> {
    // SAFETY: the callers use the result of the first function as a name for the others alone. The arguments are the caller's to
    // take off the stack in the C calling conventions of the machines that the loader knows.
    let (nothing, initialised) = unsafe {
        (
            Interposition::function(register_nothing as *const c_void),
            Interposition::function(initialise_nothing as *const c_void),
        )
    };
    let all = FUNCTIONS.into_iter().map(|name| (name, nothing));
    all.chain([("__cudaInitModule", initialised)]).collect()
}

/// Whether device code may ever run in this process: there is a device or a driver, or the program has brought a runtime or
/// a driver of its own.
fn may_run(loader: &Loader) -> bool {
    exists_below(Path::new("/"))
        || !matches!(loader.system_finds(DRIVER), Ok(None))
        || ["cuInit", FUNCTIONS[0]].iter().any(|name| loader.system_symbol(name).is_some())
}

/// Whether the file system at `root` has a device node of NVIDIA's driver: `/dev/nvidia0` and so on (the driver's
/// README, "Configuring a Device File Node"), or `/dev/dxg`, which stands for the host's GPU in WSL 2.
fn exists_below(root: &Path) -> bool {
    let is_device = |name: &str| {
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        name == "dxg" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let nodes = std::fs::read_dir(root.join("dev")).into_iter().flatten().flatten();
    nodes.into_iter().any(|node| node.file_name().to_str().is_some_and(is_device))
}

/// A place whose address alone counts.
static HANDLE: u8 = 0;

/// `void **__cudaRegisterFatBinary(void *)`, and its relatives, which return nothing.
extern "C" fn register_nothing() -> *const c_void {
    (&raw const HANDLE).cast()
}

/// `char __cudaInitModule(void **)`: the variables of a library are where device code finds them.
extern "C" fn initialise_nothing() -> c_char {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_numbered_node_of_the_driver() {
        let root = tempfile::tempdir().unwrap();
        assert!(!exists_below(root.path()), "no /dev");
        let dev = root.path().join("dev");
        std::fs::create_dir(&dev).unwrap();
        for other in ["nvidiactl", "nvidia-uvm", "nvidia", "null", "dri"] {
            std::fs::write(dev.join(other), "").unwrap();
            assert!(!exists_below(root.path()), "{other}");
        }
        for device in ["nvidia0", "nvidia15", "dxg"] {
            std::fs::write(dev.join(device), "").unwrap();
            assert!(exists_below(root.path()), "{device}");
            std::fs::remove_file(dev.join(device)).unwrap();
        }
    }
}

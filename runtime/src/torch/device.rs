//! Whether a process on this machine can use a CUDA device, as far as files and variables tell.
//!
//! The answer is needed before Python starts and must not load the driver: a process that has initialised
//! CUDA cannot use it after a fork.

use std::ffi::OsStr;
use std::path::Path;

/// Whether the kernel offers a CUDA device and `CUDA_VISIBLE_DEVICES` does not hide all of them.
pub(super) fn is_visible() -> bool {
    let named = std::env::var_os("CUDA_VISIBLE_DEVICES");
    exists() && allowed_by(named.as_deref())
}

/// Whether the kernel offers a CUDA device.
pub(super) fn exists() -> bool {
    exists_below(Path::new("/"))
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

/// Whether `CUDA_VISIBLE_DEVICES` leaves a device visible. The devices in front of the first invalid name are
/// visible (CUDA C++ Programming Guide, "CUDA Environment Variables"), so the first name decides. `-1` and
/// `NoDevFiles` are the usual ways to hide all.
fn allowed_by(variable: Option<&OsStr>) -> bool {
    let Some(variable) = variable else { return true };
    let names = variable.to_string_lossy();
    let first = names.split(',').next().unwrap_or_default().trim();
    !first.is_empty() && !first.starts_with('-') && first != "NoDevFiles"
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

    #[test]
    fn the_variable_hides_all_devices_if_its_first_name_is_none() {
        for visible in ["0", "1,0", " 2", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "0,-1"] {
            assert!(allowed_by(Some(OsStr::new(visible))), "{visible}");
        }
        for hidden in ["", " ", "-1", "-1,0", ",0", "NoDevFiles"] {
            assert!(!allowed_by(Some(OsStr::new(hidden))), "{hidden:?}");
        }
        assert!(allowed_by(None));
    }
}

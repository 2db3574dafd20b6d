//! The libraries of CUDA and of its driver, which exist once.
//!
//! A process has one primary context on each device (CUDA driver API, "Primary context management"), and interpreters pass memory
//! of it to each other. The driver's libraries for graphics and video are parts of it.

use crate::LibraryRule;
use hydrozoa_loader::Decision;

pub(crate) const RULE: LibraryRule = LibraryRule {
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
    decision: Decision::Symbols,
    reason: "the process has one CUDA context on each device",
};

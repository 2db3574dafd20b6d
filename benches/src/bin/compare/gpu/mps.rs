//! NVIDIA's multi-process service: processes that have joined it use one context of the device.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

const CONTROL: &str = "nvidia-cuda-mps-control";

/// Why the service cannot be used, if it cannot.
pub fn obstacle(device: &str) -> Option<String> {
    if !device.starts_with("cuda") {
        return Some(format!("{device} is not a GPU"));
    }
    let found =
        Command::new(CONTROL).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.err().map(|error| format!("{CONTROL}: {error}"))
}

/// A running service. It ends when this is dropped.
pub struct Service(PathBuf);

impl Service {
    /// Starts it for processes that name `folder`.
    pub fn start(folder: &Path) -> Result<Self> {
        let service = Self(folder.join("mps"));
        std::fs::create_dir_all(&service.0)
            .with_context(|| format!("making {}", service.0.display()))?;
        let mut command = Command::new(CONTROL);
        service.join(&mut command);
        let status = command.arg("-d").status().with_context(|| format!("starting {CONTROL}"))?;
        ensure!(status.success(), "{CONTROL} -d: {status}");
        Ok(service)
    }

    /// Has the command's process join it.
    pub fn join(&self, command: &mut Command) {
        command.env("CUDA_MPS_PIPE_DIRECTORY", &self.0).env("CUDA_MPS_LOG_DIRECTORY", &self.0);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let mut command = Command::new("sh");
        self.join(&mut command);
        // A daemon left behind serves no process.
        let _ = command.args(["-c", &format!("echo quit | {CONTROL}")]).status();
    }
}

//! The machine, as reports name it.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine, on which figures of speed depend.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many processors this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Main memory in GiB.
    pub memory_gib: f64,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| -> Option<String> {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kib: f64 =
            memory.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| "unknown processor".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_gib: kib / f64::from(1 << 20),
        }
    }

    /// In a line.
    pub fn words(&self) -> String {
        let Self { processor, cores, kernel, memory_gib } = self;
        format!("{cores} cores ({processor}, {memory_gib:.0} GiB, Linux {kernel})")
    }
}

//! The results of the measurements on the device.

use std::path::Path;

use anyhow::{Context, Result};
use hydrozoa_measure::samples::{Samples, median};
use serde::{Deserialize, Serialize};

use super::{Model, Options};
use crate::field;
use crate::measured::{Figures, Measured};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Interpreters,
    Processes,
    /// Processes that use the multi-process service.
    Mps,
}

/// Bytes of the device.
#[derive(Debug, Default, Deserialize)]
pub struct DeviceMemory {
    /// The growth of its used memory since before the start.
    #[serde(skip)]
    pub used: i64,
    /// The memory of all workers' tensors.
    tensors: i64,
    /// The memory that their allocators hold.
    reserved: i64,
}

impl DeviceMemory {
    /// Sums and removes the workers' notes.
    pub fn noted(folder: &Path) -> Result<Self> {
        let mut sum = Self::default();
        for entry in std::fs::read_dir(folder).context("looking for notes")? {
            let path = entry.context("looking for notes")?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("memory-")) {
                let note: Self = serde_json::from_slice(&std::fs::read(&path)?)?;
                sum.tensors += note.tensors;
                sum.reserved += note.reserved;
                std::fs::remove_file(&path)?;
            }
        }
        Ok(sum)
    }
}

/// One line of the table with the results of its rounds.
#[derive(Debug)]
pub struct Line {
    pub model: Model,
    pub kind: Kind,
    pub measured: Measured,
    device: Vec<DeviceMemory>,
}

impl Line {
    pub fn new(model: Model, kind: Kind, count: usize) -> Self {
        let (one, many) = match kind {
            Kind::Interpreters => ("interpreter", "interpreters"),
            Kind::Processes => ("process", "processes"),
            Kind::Mps => ("process, MPS", "processes, MPS"),
        };
        let label = format!("{}: {count} {}", model.name(), if count == 1 { one } else { many });
        let threads = if let Kind::Interpreters = kind { count } else { 1 };
        let line = field::Line { label, kind: many, count, contenders: vec![], threads };
        Self { model, kind, measured: Measured::new(model.name(), &line), device: vec![] }
    }

    pub fn label(&self) -> &str {
        &self.measured.line.label
    }

    pub fn add(&mut self, device: DeviceMemory, samples: Samples) {
        self.device.push(device);
        self.measured.rounds.push(samples);
    }

    /// In MiB.
    fn device(&self, of: impl Fn(&DeviceMemory) -> i64) -> f64 {
        median(&self.device.iter().map(|memory| of(memory) as f64 / MIB).collect::<Vec<_>>())
    }
}

const MIB: f64 = (1 << 20) as f64;

/// The whole result; medians over the rounds.
#[derive(Debug, Serialize)]
pub struct Report {
    device: String,
    torch: String,
    layers: usize,
    seconds: f64,
    rounds: usize,
    /// The encoder's weights have the same addresses in all interpreters of each pool. If they differ, the run ends with an
    /// error.
    uploaded_once: bool,
    /// Device memory left behind by replacements of an interpreter, in MiB.
    left_mib: Vec<(Model, f64)>,
    lines: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    /// On the device, in MiB, contexts included.
    device_mib: f64,
    /// Of those, what tensors take by torch's count.
    tensors_mib: f64,
    /// Of those, what torch's allocators have.
    reserved_mib: f64,
    /// Private dirty memory of all its processes in MiB.
    private_mib: f64,
    #[serde(flatten)]
    figures: Figures,
}

impl Report {
    pub fn new(device: &str, torch: &str, options: &Options) -> Self {
        Self {
            device: device.to_owned(),
            torch: torch.to_owned(),
            layers: options.layers,
            seconds: options.seconds,
            rounds: options.rounds.max(1),
            uploaded_once: options.models.contains(&Model::Encoder),
            left_mib: vec![],
            lines: vec![],
        }
    }

    pub fn left(&mut self, model: Model, bytes: i64) {
        self.left_mib.push((model, bytes as f64 / MIB));
    }

    pub fn lines(&mut self, lines: &[Line]) {
        let row = |line: &Line| Row {
            device_mib: line.device(|memory| memory.used),
            tensors_mib: line.device(|memory| memory.tensors),
            reserved_mib: line.device(|memory| memory.reserved),
            private_mib: line
                .measured
                .median(|samples| samples.private_kib.iter().sum::<u64>() as f64 / 1024.0),
            figures: Figures::of(&line.measured, &[], ("", 0)),
        };
        self.lines = lines.iter().map(row).collect();
    }

    pub fn print(&self) {
        println!(
            "{}, torch {}; {} layers; medians of {} round(s) of {} s",
            self.device, self.torch, self.layers, self.rounds, self.seconds
        );
        println!(
            "{:<26} {:>10} {:>8} {:>9} {:>11} {:>9} {:>8} {:>8} {:>7} {:>6}",
            "",
            "device MiB",
            "tensors",
            "reserved",
            "private MiB",
            "calls/s",
            "p50 ms",
            "p99 ms",
            "calls",
            "wrong"
        );
        for Row { device_mib, tensors_mib, reserved_mib, private_mib, figures } in &self.lines {
            let Figures { contender, throughput, p50_ms, p99_ms, calls, wrong, .. } = figures;
            println!(
                "{contender:<26} {device_mib:>10.0} {tensors_mib:>8.0} {reserved_mib:>9.0} {private_mib:>11.0} \
                 {throughput:>9.1} {p50_ms:>8.2} {p99_ms:>8.2} {calls:>7} {wrong:>6}"
            );
        }
        for (model, left) in &self.left_mib {
            println!("replacements with the {} leave {left:.1} MiB on the device", model.name());
        }
        if self.uploaded_once {
            println!("the encoder's weights have one address in all interpreters: uploaded once");
        }
    }

    /// The most MiB that replacements with one of the models have left.
    pub fn most_left(&self) -> f64 {
        self.left_mib.iter().map(|(_, left)| *left).fold(0.0, f64::max)
    }

    pub fn wrong(&self) -> usize {
        self.lines.iter().map(|row| row.figures.wrong).sum()
    }
}

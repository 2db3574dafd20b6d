//! Two models on a GPU: 1, 4 and 8 interpreters compared with as many processes, with and without NVIDIA's multi-process service.
//!
//! This program contains all that it needs, including its Python scripts. It can be copied to a machine with a GPU,
//! Python and torch, and run there.

mod mps;
mod pool;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_measure::contender::{Contender, Order};
pub use pool::GpuPool;
use serde::{Deserialize, Serialize};
use table::{DeviceMemory, Kind, Line, Report};

use crate::ours::Ours;
use crate::{field, written};

/// The script of the rivals; it also calls the models in our interpreters.
const SCRIPT: &str = include_str!("../../../../python/gpu.py");
/// The script's modules.
const MODULES: [(&str, &str); 3] = [
    ("contender.py", include_str!("../../../../python/contender.py")),
    ("orders.py", include_str!("../../../../python/orders.py")),
    ("weights.py", include_str!("../../../../python/weights.py")),
];

/// The most MiB that replacements may leave on the device.
const LEFT_MIB: f64 = 10.0;

/// Replacements of an interpreter, if none are asked for.
const REPLACEMENTS: usize = 20;

#[derive(clap::Args, Clone)]
pub struct Options {
    /// The virtual environment with torch; without it the first python3 of PATH and its libpython are used
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// The libpython of the interpreters, where it is not the environment's own
    #[arg(long, value_name = "LIBPYTHON")]
    python: Option<PathBuf>,
    /// Where the model runs: cuda or cuda:N; cpu rehearses the run on a machine without a GPU
    #[arg(long, default_value = "cuda")]
    device: String,
    /// How many interpreters, and how many processes
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4,8")]
    counts: Vec<usize>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How often the program starts and measures everything; medians are reported
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// The models that the workers call
    #[arg(long, value_enum, value_delimiter = ',', default_value = "encoder,decoder")]
    models: Vec<Model>,
    /// How often an interpreter is replaced to see what that leaves on the device; 20 without it
    #[arg(long, value_name = "N")]
    replacements: Option<usize>,
    /// Layers of the models; BERT-base has 12
    #[arg(long, default_value_t = 12)]
    layers: usize,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The output of `gpu.py probe`.
#[derive(Debug, Deserialize)]
struct Probe {
    torch: String,
    name: String,
    uuid: String,
    obstacle: Option<String>,
}

/// A folder that is removed at the end of the run.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left behind does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The model that a worker calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// BERT-base's size, in float32: its kernels take longer than launching them
    Encoder,
    /// A step of 12 layers in float16 with a cache of keys and values: launching its kernels takes longer than they do
    Decoder,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
        }
    }
}

pub fn run(options: &Options) -> Result<()> {
    ensure!(options.counts.iter().all(|count| *count > 0), "--counts: each at least 1");
    let folder = Folder(std::env::temp_dir().join(format!("hydrozoa-gpu-{}", std::process::id())));
    let folder = &folder.0;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, text) in MODULES.into_iter().chain([("gpu.py", SCRIPT)]) {
        std::fs::write(folder.join(name), text)
            .with_context(|| format!("writing {name} to {}", folder.display()))?;
    }
    let probe = probe(options, folder)?;
    eprintln!("exporting models of {} layers", options.layers);
    ran(script(options, folder, "export").arg(folder).arg(options.layers.to_string()))?;
    let mut watch = Contender::ready(
        "reader of the device's memory",
        script(options, folder, "watch").arg(&probe.uuid),
    )?;
    let mut report = Report::new(&probe.name, &probe.torch, options);
    if options.replacements != Some(0) {
        for &model in &options.models {
            let left = replaced(options, folder, &mut watch, model)
                .with_context(|| format!("replacing interpreters with the {}", model.name()))?;
            report.left(model, left);
        }
    }
    let kinds: &[Kind] = match mps::obstacle(&options.device) {
        Some(reason) => {
            eprintln!("processes under MPS are not measured: {reason}");
            &[Kind::Interpreters, Kind::Processes]
        }
        None => &[Kind::Interpreters, Kind::Processes, Kind::Mps],
    };
    let mut lines: Vec<Line> = Vec::new();
    for &model in &options.models {
        for &count in &options.counts {
            lines.extend(kinds.iter().map(|&kind| Line::new(model, kind, count)));
        }
    }
    for round in 0..options.rounds.max(1) {
        // Every other round runs backwards, so that a drift of the machine's speed favours nobody.
        let mut order: Vec<usize> = (0..lines.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let line = &mut lines[index];
            eprintln!("round {}: {}", round + 1, line.label());
            measure(options, folder, &mut watch, line)
                .with_context(|| format!("measuring {}", line.label()))?;
        }
    }
    report.lines(&lines);
    report.print();
    written::json(options.json.as_deref(), &report)?;
    ensure!(report.wrong() == 0, "{} outputs differ from plain python's", report.wrong());
    let left = report.most_left();
    ensure!(left <= LEFT_MIB, "replacements leave {left:.1} MiB on the device, not {LEFT_MIB}");
    Ok(())
}

/// torch's data about the device. If the device cannot be used, the error says what is missing.
fn probe(options: &Options, folder: &Path) -> Result<Probe> {
    let output = script(options, folder, "probe").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "python cannot import torch: {}", output.status);
    let probe: Probe =
        serde_json::from_slice(&output.stdout).context("reading python's report of the device")?;
    if let Some(obstacle) = &probe.obstacle {
        bail!(
            "torch {} sees no device {}: {obstacle}. This comparison needs a GPU, and has not been run. Carry {} to a \
             machine with one, with Python's shared library and torch, and run `compare gpu --venv DIR` there",
            probe.torch,
            options.device,
            std::env::current_exe().context("finding this program")?.display()
        );
    }
    Ok(probe)
}

/// Starts the line's contenders alone on the device, reads the device's memory before and afterwards, and makes them
/// work.
fn measure(options: &Options, folder: &Path, watch: &mut Contender, line: &mut Line) -> Result<()> {
    let before = bytes(watch)?;
    let service = (line.kind == Kind::Mps).then(|| mps::Service::start(folder)).transpose()?;
    let mut contenders = match line.kind {
        Kind::Interpreters => {
            let pool = GpuPool::new(options, folder, line.model, line.measured.line.count);
            vec![Contender::start("a pool of interpreters", &mut Ours::Gpu(pool).command()?)?]
        }
        Kind::Processes | Kind::Mps => (0..line.measured.line.count)
            .map(|number| {
                let mut command = script(options, folder, "serve");
                if let Some(service) = &service {
                    service.join(&mut command);
                }
                Contender::start(
                    &format!("python process {}", number + 1),
                    command.arg(folder).arg(line.model.name()),
                )
            })
            .collect::<Result<_>>()?,
    };
    for contender in &mut contenders {
        contender.wait_until_ready()?;
    }
    let mut device = DeviceMemory::noted(folder)?;
    device.used = bytes(watch)? - before;
    line.add(device, field::call(contenders.iter_mut(), &line.measured.line, "", options.seconds)?);
    Ok(())
}

/// How many bytes of the device the replacements of an interpreter leave.
fn replaced(options: &Options, folder: &Path, watch: &mut Contender, model: Model) -> Result<i64> {
    let times = options.replacements.unwrap_or(REPLACEMENTS);
    eprintln!("replacing an interpreter with the {} {times} times", model.name());
    let mut pool = GpuPool::new(options, folder, model, 1);
    pool.is_replacing = true;
    let mut contender =
        Contender::ready("a pool of interpreters", &mut Ours::Gpu(pool).command()?)?;
    // The first replacement may leave what every process has once.
    contender.ask(&Order::Replace { times: 1 })?;
    let before = bytes(watch)?;
    contender.ask(&Order::Replace { times })?;
    let left = bytes(watch)? - before;
    Ok(left)
}

fn bytes(watch: &mut Contender) -> Result<i64> {
    Ok(watch.ask(&Order::Read)?.reading)
}

/// Stock python with one part of the script.
fn script(options: &Options, folder: &Path, part: &str) -> Command {
    let mut command = match &options.venv {
        Some(venv) => Command::new(venv.join("bin/python")),
        None => Command::new("python3"),
    };
    for name in ["PYTHONPATH", "PYTHONHOME"] {
        if options.venv.is_some() {
            command.env_remove(name);
        }
    }
    command.arg(folder.join("gpu.py")).arg(part).arg(&options.device);
    command
}

fn ran(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

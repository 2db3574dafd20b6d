//! A model of BERT-base's size on a GPU: 1, 4 and 8 interpreters compared with as many processes.
//!
//! This program contains all that it needs, including its Python scripts. It can be copied to a machine with a GPU,
//! Python and torch, and run there.

mod pool;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_measure::contender::{Contender, Order};
use hydrozoa_measure::samples::Samples;
use serde::Deserialize;
use table::{Kind, Line, Report};

/// The script of the rivals; it also calls the model in our interpreters.
const SCRIPT: &str = include_str!("../../../../python/gpu.py");
/// The model, which the script imports.
const MODEL: &str = include_str!("../../../../python/weights.py");

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
    /// Layers of the model; BERT-base has 12
    #[arg(long, default_value_t = 12)]
    layers: usize,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The folder with the model that another process of this program exported; with it, this process is a pool that
    /// answers orders
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
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

pub fn run(options: &Options) -> Result<()> {
    if let Some(folder) = &options.serve {
        return pool::serve(options, folder);
    }
    ensure!(options.counts.iter().all(|count| *count > 0), "--counts: each at least 1");
    let folder = Folder(std::env::temp_dir().join(format!("hydrozoa-gpu-{}", std::process::id())));
    let folder = &folder.0;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, text) in [("gpu.py", SCRIPT), ("weights.py", MODEL)] {
        std::fs::write(folder.join(name), text)
            .with_context(|| format!("writing {name} to {}", folder.display()))?;
    }
    let probe = probe(options, folder)?;
    eprintln!("exporting a model of {} layers", options.layers);
    ran(script(options, folder, "export").arg(folder).arg(options.layers.to_string()))?;
    let mut watch = Contender::start(
        "reader of the device's memory",
        script(options, folder, "watch").arg(&probe.uuid),
    )?;
    watch.wait_until_ready()?;
    let mut lines: Vec<Line> = options
        .counts
        .iter()
        .flat_map(|&count| [Kind::Interpreters, Kind::Processes].map(|kind| Line::new(kind, count)))
        .collect();
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
    let report = Report::new(&probe.name, &probe.torch, options, &lines);
    report.print();
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    ensure!(report.wrong() == 0, "{} outputs differ from plain python's", report.wrong());
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
    let mut contenders = match line.kind {
        Kind::Interpreters => {
            let mut command =
                Command::new(std::env::current_exe().context("finding this program")?);
            command.args(["gpu", "--device", &options.device, "--seconds", "0"]);
            command.args(["--counts", &line.count.to_string()]).arg("--serve").arg(folder);
            for (name, path) in [("--venv", &options.venv), ("--python", &options.python)] {
                if let Some(path) = path {
                    command.arg(name).arg(path);
                }
            }
            vec![Contender::start("a pool of interpreters", &mut command)?]
        }
        Kind::Processes => (0..line.count)
            .map(|number| {
                Contender::start(
                    &format!("python process {}", number + 1),
                    script(options, folder, "serve").arg(folder),
                )
            })
            .collect::<Result<_>>()?,
    };
    for contender in &mut contenders {
        contender.wait_until_ready()?;
    }
    let device_bytes = bytes(watch)? - before;
    let order = Order {
        model: String::new(),
        seconds: options.seconds,
        threads: line.count,
        processes: line.count,
    };
    for contender in &mut contenders {
        contender.send(&order)?;
    }
    let mut samples = Samples::default();
    for contender in &mut contenders {
        samples.merge(contender.result()?);
    }
    line.add(device_bytes, samples);
    Ok(())
}

fn bytes(watch: &mut Contender) -> Result<i64> {
    let answer = watch.ask("")?;
    answer.parse().with_context(|| format!("{answer:?} is not a number of bytes"))
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

//! A package with the weights of BERT-base: time to the first output compared with stock torch.package, memory of
//! eight interpreters, and the memory of a second process that uses the same file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::memory::Usage;
use hydrozoa::{Movable, Package, Pool, Session};
use hydrozoa_measure::contender::{Contender, Order, plain_python};
use hydrozoa_measure::orders;
use hydrozoa_measure::package::{EXAMPLE, MODEL};
use hydrozoa_measure::samples::{Samples, median};
use serde::{Deserialize, Serialize};

use crate::ours::Ours;

/// The memory that a further interpreter may write for itself, as a share of the weights.
const PRIVATE_SHARE: f64 = 0.03;
/// Time to the first output as a share of stock's.
const TIME_SHARE: f64 = 0.5;

#[derive(clap::Args, Clone)]
pub struct Options {
    /// encoder.pt, as benches/python/weights.py writes it
    #[arg(long)]
    package: PathBuf,
    /// benches/python/weights.py
    #[arg(long, required_unless_present = "memory")]
    script: Option<PathBuf>,
    /// The virtual environment with torch
    #[arg(long)]
    venv: PathBuf,
    /// How many interpreters share the weights
    #[arg(long, default_value_t = 8)]
    interpreters: usize,
    /// How often the program times the first output, each time in new processes
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only the memory, not the time
    #[arg(long)]
    memory: bool,
    /// A script whose `call` makes bytes of the result of a model and its example; without it, the bytes of a tensor count
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

/// A process that uses the package in one interpreter.
#[derive(Serialize, Deserialize)]
pub struct WeightsPool {
    package: PathBuf,
    venv: PathBuf,
    check: Option<PathBuf>,
    /// Load and call before it is ready; or, without it, when it gets the order to start a worker.
    is_holding: bool,
}

pub fn run(options: &Options) -> Result<()> {
    if let Some(script) = options.script.as_ref().filter(|_| !options.memory) {
        time(options, script)?;
    }
    memory(options)
}

impl WeightsPool {
    fn command(options: &Options, is_holding: bool) -> Result<Command> {
        let Options { package, venv, check, .. } = options.clone();
        Ours::Weights(Self { package, venv, check, is_holding }).command()
    }

    pub fn run(&self) -> Result<()> {
        let pool = pool(&self.venv, 1)?;
        let session = pool.acquire()?;
        let check = self.check.as_deref();
        let mut packages = Vec::new();
        // The seconds to load and to call.
        let mut first = || -> Result<[Duration; 2]> {
            let begin = Instant::now();
            let package = pool.load_package(&self.package)?;
            let (model, example) = load(&package)?;
            let loaded = begin.elapsed();
            let output = output(&session, check, &model, &example)?;
            let called = begin.elapsed() - loaded;
            ensure!(output == expected(&self.package)?, "the output differs from plain python's");
            packages.push(package);
            Ok([loaded, called])
        };
        if self.is_holding {
            first()?;
        }
        orders::answer(|order| {
            let Order::Grow { .. } = order else { return orders::refuse(&order) };
            let mut samples = Samples::default();
            for took in first()? {
                samples.record(took, true);
            }
            Ok(samples)
        })
    }
}

fn pool(venv: &Path, interpreters: usize) -> Result<Pool> {
    let pool = Pool::builder().interpreters(interpreters).venv(venv).build()?;
    for interpreter in pool.interpreters() {
        interpreter.session().run("import torch, numpy\ntorch.set_num_threads(1)", "prepare.py")?;
    }
    Ok(pool)
}

/// The model, and its example.
fn load(package: &Package) -> Result<(Movable, Movable)> {
    Ok((package.load_pickle(MODEL.0, MODEL.1)?, package.load_pickle(EXAMPLE.0, EXAMPLE.1)?))
}

/// The result of a script's `call`.
fn output(
    session: &Session,
    check: Option<&Path>,
    model: &Movable,
    example: &Movable,
) -> Result<Vec<u8>> {
    let script = match check {
        Some(path) => fs::read_to_string(path)?,
        None => "call = lambda model, example: model(*example).numpy().tobytes()".to_owned(),
    };
    let call = session.run(&script, "check.py")?.getattr("call")?;
    Ok(call.call((model.to_object(session)?, example.to_object(session)?))?.extract()?)
}

fn expected(package: &Path) -> Result<Vec<u8>> {
    let path = package.with_extension("expected");
    fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

/// Time to the first output, ours and stock's in turn.
fn time(options: &Options, script: &Path) -> Result<()> {
    let mut ratios = Vec::new();
    for round in 1..=options.rounds {
        let mut stock = plain_python(&options.venv.join("bin/python"), script);
        let stock = seconds("python", stock.arg("first").arg(&options.package))?;
        let own = seconds("an interpreter", &mut WeightsPool::command(options, false)?)?;
        ratios.push(total(own) / total(stock));
        println!(
            "round {round}: first output after {:.3} s (load {:.3}, call {:.3}); stock {:.3} s (load {:.3}, call {:.3})",
            total(own),
            own[0],
            own[1],
            total(stock),
            stock[0],
            stock[1],
        );
    }
    let median = median(&ratios);
    println!("time to the first output, as a share of stock's: median {median:.2}");
    ensure!(median <= TIME_SHARE, "the first output takes more than {TIME_SHARE} of stock's time");
    Ok(())
}

fn total(seconds: [f64; 2]) -> f64 {
    seconds.iter().sum()
}

/// The seconds that a contender's first worker takes to load and to call.
fn seconds(name: &str, command: &mut Command) -> Result<[f64; 2]> {
    let samples = Contender::ready(name, command)?.ask(&Order::Grow { workers: 1 })?;
    let [load, call] = samples.latencies_us[..] else { bail!("{name} has not told two times") };
    Ok([load / 1e6, call / 1e6])
}

fn memory(options: &Options) -> Result<()> {
    let pool = pool(&options.venv, options.interpreters)?;
    let expected = expected(&options.package)?;
    let package = pool.load_package(&options.package)?;
    let weights = fs::metadata(&options.package)?.len() as f64;
    let (model, example) = load(&package)?;
    let check = options.check.as_deref();
    let mut worst: f64 = 0.0;
    for (index, interpreter) in pool.interpreters().iter().enumerate() {
        let session = interpreter.session();
        let before = Usage::of_process()?;
        let output = output(&session, check, &model, &example)?;
        ensure!(
            output == expected,
            "{}: the output differs from plain python's",
            interpreter.name()
        );
        let grown = (Usage::of_process()? - before).private as f64;
        println!(
            "{}: private memory grew by {:.2} MB, {:.2} % of the weights",
            interpreter.name(),
            grown / 1e6,
            grown / weights * 100.0
        );
        if index > 0 {
            worst = worst.max(grown / weights);
        }
    }
    ensure!(
        worst <= PRIVATE_SHARE,
        "a further interpreter writes {:.1} % of the weights",
        worst * 100.0
    );
    second_process(options)
}

/// Another process serves the same file. Measures its share of the weights' pages, and ours.
fn second_process(options: &Options) -> Result<()> {
    let alone = Usage::of_file(std::process::id(), &options.package)?;
    let holder = Contender::ready("a second process", &mut WeightsPool::command(options, true)?)?;
    let own = Usage::of_file(std::process::id(), &options.package)?;
    let other = Usage::of_file(holder.id(), &options.package)?;
    drop(holder);
    let mb = |bytes: i64| bytes as f64 / 1e6;
    println!(
        "the package's pages: {:.1} MB resident alone (Pss {:.1}); beside a second process Pss {:.1} here, {:.1} there, private there {:.1}",
        mb(alone.resident),
        mb(alone.proportional),
        mb(own.proportional),
        mb(other.proportional),
        mb(other.private),
    );
    ensure!(
        other.proportional * 10 <= other.resident * 6 && other.private * 20 <= other.resident,
        "the second process does not share the pages: {other:?}"
    );
    Ok(())
}

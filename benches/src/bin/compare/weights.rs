//! A package with the weights of BERT-base: time to the first output compared with stock torch.package, memory of
//! eight interpreters, and the memory of a second process that uses the same file.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hydrozoa::memory::Usage;
use hydrozoa::{Pool, Session, Tensor};
use hydrozoa_measure::package::{EXAMPLE, MODEL};

/// The memory that a further interpreter may write for itself, as a share of the weights.
const PRIVATE_SHARE: f64 = 0.03;
/// Time to the first output as a share of stock's.
const TIME_SHARE: f64 = 0.5;

#[derive(clap::Args)]
pub struct Options {
    /// encoder.pt, as benches/python/weights.py writes it
    #[arg(long)]
    package: PathBuf,
    /// benches/python/weights.py
    #[arg(long)]
    script: PathBuf,
    /// The virtual environment with torch
    #[arg(long)]
    venv: PathBuf,
    /// How many interpreters share the weights
    #[arg(long, default_value_t = 8)]
    interpreters: usize,
    /// How often the program times the first output, each time in new processes
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only one part, in this process: what the others are started with
    #[arg(long)]
    part: Option<Part>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    /// Prints the seconds to load and to call
    First,
    /// Serves the package, prints a line when it is ready and waits for the end of its input
    Hold,
}

pub fn run(options: &Options) -> Result<()> {
    match options.part {
        Some(Part::First) => first(options),
        Some(Part::Hold) => hold(options),
        None => {
            time(options)?;
            memory(options)
        }
    }
}

fn pool(options: &Options, interpreters: usize) -> Result<Pool> {
    let pool = Pool::builder().interpreters(interpreters).venv(&options.venv).build()?;
    for interpreter in pool.interpreters() {
        interpreter.session().run("import torch\ntorch.set_num_threads(1)", "prepare.py")?;
    }
    Ok(pool)
}

/// The model's output for the package's own example.
fn call(session: &Session, package: &hydrozoa::Package) -> Result<Vec<f32>> {
    let (model, example) = load(package)?;
    output(session, &model, &example)
}

fn load(package: &hydrozoa::Package) -> Result<(hydrozoa::Movable, hydrozoa::Movable)> {
    Ok((package.load_pickle(MODEL.0, MODEL.1)?, package.load_pickle(EXAMPLE.0, EXAMPLE.1)?))
}

fn output(
    session: &Session,
    model: &hydrozoa::Movable,
    example: &hydrozoa::Movable,
) -> Result<Vec<f32>> {
    let call = session.eval("lambda model, arguments: model(*arguments)")?;
    let output: Tensor =
        call.call((model.to_object(session)?, example.to_object(session)?))?.extract()?;
    Ok(output.to_vec()?)
}

fn expected(options: &Options) -> Result<Vec<f32>> {
    let path = options.package.with_extension("expected");
    let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
}

fn first(options: &Options) -> Result<()> {
    let pool = pool(options, 1)?;
    let session = pool.acquire()?;
    let begin = Instant::now();
    let package = pool.load_package(&options.package)?;
    let (model, example) = load(&package)?;
    let loaded = begin.elapsed();
    let output = output(&session, &model, &example)?;
    println!("{} {}", loaded.as_secs_f64(), (begin.elapsed() - loaded).as_secs_f64());
    ensure!(output == expected(options)?, "the output differs from plain python's");
    Ok(())
}

/// Time to the first output, ours and stock's in turn.
fn time(options: &Options) -> Result<()> {
    let mut ratios = Vec::new();
    for round in 1..=options.rounds {
        let stock = seconds(
            Command::new(options.venv.join("bin/python"))
                .arg(&options.script)
                .arg("first")
                .arg(&options.package),
        )?;
        let own = seconds(&mut part(options, "first")?)?;
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
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("time to the first output, as a share of stock's: median {median:.2}");
    ensure!(median <= TIME_SHARE, "the first output takes more than {TIME_SHARE} of stock's time");
    Ok(())
}

fn total(seconds: [f64; 2]) -> f64 {
    seconds.iter().sum()
}

/// The two numbers that a program prints.
fn seconds(command: &mut Command) -> Result<[f64; 2]> {
    let output = command.env("OMP_NUM_THREADS", "1").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> =
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().context(text.clone())?;
    numbers.try_into().map_err(|_| anyhow::anyhow!("{text:?} is not two numbers"))
}

/// This program with the same options, for one part of the measurement.
fn part(options: &Options, name: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["weights", "--part", name]).arg("--package").arg(&options.package);
    command.arg("--script").arg(&options.script).arg("--venv").arg(&options.venv);
    command.args(["--interpreters", &options.interpreters.to_string()]);
    Ok(command)
}

fn memory(options: &Options) -> Result<()> {
    let pool = pool(options, options.interpreters)?;
    let expected = expected(options)?;
    let package = pool.load_package(&options.package)?;
    let weights = fs::metadata(&options.package)?.len() as f64;
    let (model, example) = load(&package)?;
    let mut worst: f64 = 0.0;
    for (index, interpreter) in pool.interpreters().iter().enumerate() {
        let session = interpreter.session();
        let before = Usage::of_process()?;
        let output = output(&session, &model, &example)?;
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
    let mut other = part(options, "hold")?
        .env("OMP_NUM_THREADS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let told = wait_for_line(&mut other);
    let shares = told.and_then(|()| {
        Ok([
            Usage::of_file(std::process::id(), &options.package)?,
            Usage::of_file(other.id(), &options.package)?,
        ])
    });
    drop(other.stdin.take());
    other.wait()?;
    let [own, other] = shares?;
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

fn wait_for_line(child: &mut Child) -> Result<()> {
    let mut line = String::new();
    let output = child.stdout.take().context("stdout is piped")?;
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line == "ready\n", "the second process failed");
    Ok(())
}

fn hold(options: &Options) -> Result<()> {
    let pool = pool(options, 1)?;
    let package = pool.load_package(&options.package)?;
    let output = call(&pool.acquire()?, &package)?;
    ensure!(output == expected(options)?, "the output differs from plain python's");
    println!("ready");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

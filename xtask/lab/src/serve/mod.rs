//! `cargo xtask lab serve`: serving systems with the same models, asked by the same client, in one run.

mod faults;
mod long;
mod measure;
mod overload;
mod page;
mod repository;
mod results;
mod running;
mod system;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_measure::machine::Machine;

use crate::environment::Environment;
use crate::steps::Count;
use crate::triton::Triton;
use crate::{backend, cache, lock, python, workspace};

use measure::Turns;
use results::Results;
use system::{Installed, Parameter, Served, System};

/// Options of `cargo xtask lab serve`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Everything with long windows, which takes more than an hour; without it a short form of some minutes
    #[arg(long)]
    full: bool,
    /// Only what `cargo xtask test` does: the overload for 20 seconds, or `--overload S`, with a model that needs numpy alone
    #[arg(long, conflicts_with_all = ["full", "systems", "models", "parts", "json", "from", "page", "add"])]
    short: bool,
    /// With --short: take the programs from this folder instead of building them
    #[arg(long, value_name = "DIR", requires = "short")]
    built: Option<PathBuf>,
    /// With --short: the CPython
    #[arg(long, value_name = "3.N|PATH", requires = "short")]
    python: Option<python::Wanted>,
    /// Only these systems
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    systems: Vec<System>,
    /// Only these models
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = MODELS)]
    models: Vec<String>,
    /// Only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',', value_enum)]
    parts: Vec<Part>,
    /// Connections of windows
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 8, 64])]
    connections: Vec<usize>,
    /// Seconds of a window
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// How often each window is measured
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Seconds of the overload
    #[arg(long, value_name = "S")]
    overload: Option<f64>,
    /// A parameter of the models of `hydrozoa serve`
    #[arg(long, value_name = "KEY=VALUE")]
    parameter: Vec<Parameter>,
    /// Where the results go, as JSON, with tables as CSV beside it
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Add to the file's results, and replace none of them
    #[arg(long)]
    add: bool,
    /// Measure nothing: read the results of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["full", "systems", "models", "parts", "json", "add"])]
    from: Option<PathBuf>,
    /// Write tables and plots to docs/serving.md, and the results beside it
    #[arg(long)]
    page: bool,
}

/// The models of a comparison. `benches/python/serving/work.py` has them.
const MODELS: [&str; 4] = ["blank", "mobilenet", "text", "megabyte"];

/// Seconds of the overload in a short form.
const SHORT: f64 = 20.0;

/// The model of the overload that needs no torch.
const WORK: &str = "work";

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Throughput and latency
    Windows,
    /// Memory of 1, 2 and 4 instances, and the time until a server is ready
    Memory,
    /// Memory of ten models and of four
    Ten,
    /// `hydrozoa serve` at twice what it can do
    Overload,
    /// A healthy model of `hydrozoa serve` beside faulty ones
    Faults,
    /// 1,000 reloads of a package under load, 10,000 malformed requests over each protocol
    Tests,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.short {
        let build = |package, name| match &arguments.built {
            Some(folder) => Ok(folder.join(name)),
            None => workspace::build(package, name),
        };
        let hydrozoa = build("hydrozoa-cli", "hydrozoa")?;
        let environment = Environment::with_torch(python::find(arguments.python.as_ref())?)?;
        let seconds = arguments.overload.unwrap_or(SHORT);
        let client = build("hydrozoa-benches", "load")?;
        return short((&hydrozoa, &client), &environment, seconds).map(drop);
    }
    let results = match &arguments.from {
        Some(path) => Results::read(path)?,
        None => measured(arguments)?,
    };
    println!("{}", page::text(&results));
    if arguments.page {
        let docs = workspace::root().join("docs");
        results.write(&docs.join("serving/results.json"))?;
        page::write(&docs.join("serving.md"), &results)?;
    }
    let broken: Vec<_> = results.overload.iter().flat_map(overload::broken).collect();
    ensure!(broken.is_empty(), "overload: {}", broken.join("; "));
    Ok(())
}

fn measured(arguments: &Arguments) -> Result<Results> {
    let systems = match &arguments.systems[..] {
        [] => System::ALL.into_iter().filter(|it| *it != System::HydrozoaRecorded).collect(),
        some => some.to_vec(),
    };
    let models: Vec<&str> = match &arguments.models[..] {
        [] => MODELS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let full = arguments.full;
    let is_wanted = |part: Part| match &arguments.parts[..] {
        [] => full || !matches!(part, Part::Ten | Part::Tests),
        some => some.contains(&part),
    };
    let turns = Turns {
        seconds: arguments.seconds.unwrap_or(if full { 5.0 } else { 1.0 }),
        rounds: arguments.rounds.unwrap_or(if full { 5 } else { 2 }),
        connections: arguments.connections.clone(),
    };
    let mut place = install(&systems, &models)?;
    place.parameters.clone_from(&arguments.parameter);
    let client = workspace::build("hydrozoa-benches", "load")?;
    let path = match &arguments.json {
        Some(path) => path.clone(),
        None => workspace::target()?.join("serve/results.json"),
    };
    let mut results = if arguments.add { Results::read(&path)? } else { Results::default() };
    results.machine = Machine::this();
    if is_wanted(Part::Windows) {
        (results.seconds, results.rounds) = (turns.seconds, turns.rounds);
    }
    let tools = (&place, client.as_path());
    for model in &models {
        let systems: Vec<_> = systems.iter().copied().filter(|it| fits(*it, model)).collect();
        if is_wanted(Part::Windows) {
            // Rounds of two runs do not make up one run.
            ensure!(
                !results.models().contains(model),
                "{} has windows of {model} already; `--json` names another file",
                path.display()
            );
            measure::windows(tools, &systems, model, &turns, &mut results)?;
            results.write(&path)?;
        }
        if is_wanted(Part::Memory) && (full || ["blank", "mobilenet"].contains(model)) {
            let counts: &[usize] = if full { &[1, 2, 4] } else { &[1, 2] };
            for (system, instances) in product(&systems, counts) {
                let served = Served { model, models: 1, instances };
                measure::memory(tools, system, served, &mut results)?;
                results.write(&path)?;
            }
        }
    }
    if is_wanted(Part::Ten) {
        for system in systems.iter().copied().filter(|system| system.has_repositories()) {
            let models = if system == System::TritonPython { 4 } else { 10 };
            let served = Served { model: "mobilenet", models, instances: 2 };
            measure::memory(tools, system, served, &mut results)?;
            results.write(&path)?;
        }
    }
    if is_wanted(Part::Overload) {
        place.options = overload::options();
        let seconds = arguments.overload.unwrap_or(if full { 600.0 } else { SHORT });
        let model = if models.contains(&"mobilenet") { "mobilenet" } else { models[0] };
        let found = overload::overload((&place, &client), System::Hydrozoa, model, seconds)?;
        results.overload.push(found);
        results.write(&path)?;
    }
    if is_wanted(Part::Faults) {
        place.options = faults::options();
        place.has_faults = true;
        prepare(&place, &[faults::HEALTHY])?;
        let (seconds, rounds) = if full { (10.0, 3) } else { (2.0, 2) };
        results.faults = faults::faults((&place, &client), seconds, rounds)?;
        results.write(&path)?;
    }
    if is_wanted(Part::Tests) {
        long::run(&place.hydrozoa)?;
    }
    eprintln!("the results are in {}", path.display());
    Ok(results)
}

/// Whether a system differs from others with a model.
fn fits(system: System, model: &str) -> bool {
    !system.is_for_torch() || ["mobilenet", "text"].contains(&model)
}

/// All instances of one system, then those of the next.
fn product(systems: &[System], counts: &[usize]) -> Vec<(System, usize)> {
    let pairs = systems.iter().flat_map(|system| counts.iter().map(|count| (*system, *count)));
    pairs.collect()
}

/// Installs the systems' requirements, and has plain python compute the right answers.
fn install(systems: &[System], models: &[&str]) -> Result<Installed> {
    let python = python::find(Some(&python::Wanted::Minor(lock::SERVING)))?;
    let environment = Environment::with_torch(python.clone())?;
    let mut others = Vec::new();
    for (system, name) in [
        (System::LitServe, "litserve"),
        (System::MlServer, "mlserver"),
        (System::FastApi, "fastapi"),
    ] {
        if systems.contains(&system) {
            others.push((name, environment.with_server(name)?));
        }
    }
    let is_triton = |it: &System| matches!(it, System::TritonHydrozoa | System::TritonPython);
    let triton = if systems.iter().any(is_triton) { Some(Triton::install(&python)?) } else { None };
    let backend = systems.contains(&System::TritonHydrozoa).then(|| backend::build(true));
    let place = Installed {
        hydrozoa: workspace::build("hydrozoa-cli", "hydrozoa")?,
        backend: backend.transpose()?,
        triton,
        models: environment.with_server("triton")?,
        others,
        folder: cache::root()?.join(format!("serve-cp3{}", lock::SERVING)),
        options: Vec::new(),
        parameters: Vec::new(),
        has_faults: false,
    };
    prepare(&place, models)?;
    Ok(place)
}

/// Writes the files of models, and their inputs and outputs, by plain python.
fn prepare(place: &Installed, models: &[&str]) -> Result<()> {
    let mut command = place.models.python();
    command.arg(Installed::scripts().join("prepare.py")).arg(&place.folder).args(models);
    for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"] {
        command.env(name, "1");
    }
    let status = command.status().context("starting python")?;
    if !status.success() {
        bail!("plain python cannot run the models: {status}");
    }
    Ok(())
}

/// So many seconds at twice what a server can do, with a model that needs numpy alone. Part of `cargo xtask test`.
pub fn short(
    (hydrozoa, client): (&Path, &Path),
    environment: &Environment,
    seconds: f64,
) -> Result<Count> {
    let scratch = tempfile::tempdir()?;
    let place = Installed {
        hydrozoa: hydrozoa.to_owned(),
        backend: None,
        triton: None,
        models: environment.clone(),
        others: Vec::new(),
        folder: scratch.path().to_owned(),
        options: overload::options(),
        parameters: Vec::new(),
        has_faults: false,
    };
    prepare(&place, &[WORK])?;
    let found = overload::overload((&place, client), System::Hydrozoa, WORK, seconds)?;
    println!("{}", overload::words(&found));
    let broken = overload::broken(&found);
    ensure!(broken.is_empty(), "{}", broken.join("; "));
    Ok(Count::one(true))
}

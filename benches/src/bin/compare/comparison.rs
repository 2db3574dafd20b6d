//! The run: the contenders, the order of their measurements, and whether the promises are decided.

use std::path::PathBuf;

use anyhow::{Result, bail};
use hydrozoa_measure::models::manifest;

use crate::exported::{Exported, ModelsPool};
use crate::field::Field;
use crate::measured::Measured;
use crate::ours::Ours;
use crate::{report, written};

/// With `--require-speed`, at most this many times the rounds asked for: see [`is_decided`].
const PATIENCE: usize = 6;

/// So many seconds each line calls before the first round: a thread's first calls get it a stack, and libraries' buffers.
const FIRST: f64 = 0.1;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    exported: Exported,
    /// The rivals' script, benches/python/worker.py
    #[arg(long)]
    worker: PathBuf,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How often everything is measured; medians are reported
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many interpreters, threads and processes are compared; the promises are about 1 and 2
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 2, 4])]
    counts: Vec<usize>,
    /// Also write the figures to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fail if two interpreters are slower than docs/specification.md promises
    #[arg(long)]
    require_speed: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let models: Vec<String> =
        manifest(&options.exported.manifest)?.into_iter().map(|entry| entry.name).collect();
    eprintln!("starting interpreters and processes");
    let mut field = start(options)?;
    let mut measured: Vec<Measured> = models
        .iter()
        .flat_map(|model| field.lines().iter().map(|line| Measured::new(model, line)))
        .collect();
    eprintln!("first calls, which do not count");
    for one in &measured {
        field.measure(&one.line, &one.model, FIRST)?;
    }
    for round in 0..options.rounds * PATIENCE {
        // Lines that are compared are measured one right after the other: the speed of a machine with other users
        // changes within seconds.
        let (mut order, others): (Vec<usize>, Vec<usize>) =
            (0..measured.len()).partition(|&index| report::is_promised(&measured[index]));
        if round < options.rounds {
            eprintln!("round {} of {}", round + 1, options.rounds);
            order.extend(others);
        } else {
            if !options.require_speed || is_decided(&measured, options) {
                break;
            }
            let judged = report::judged(&measured).len();
            eprintln!(
                "round {}, promised lines only: {judged} rounds can be judged so far",
                round + 1
            );
        }
        // Every other round runs backwards, so that a drift of the machine's speed favours nobody.
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let one = &mut measured[index];
            one.rounds.push(field.measure(&one.line, &one.model, options.seconds)?);
        }
    }
    let report = report::Report::new(&measured, options.seconds);
    report.print();
    written::json(options.json.as_deref(), &report)?;
    let failed = report.failures(options.require_speed);
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// Whether the promises are decided. Before the last round they do not count as broken: on a machine with other
/// users, a disturbance of a few rounds need not show in the figures that detect a disturbed round.
fn is_decided(measured: &[Measured], options: &Options) -> bool {
    report::judged(measured).len() >= options.rounds
        && report::Report::new(measured, options.seconds).is_kept()
}

fn start(options: &Options) -> Result<Field> {
    let mut field = Field::default();
    for &count in &options.counts {
        add_pool(&mut field, options, count)?;
    }
    let most = options.counts.iter().copied().max().unwrap_or_default();
    let python = || options.exported.rival(&options.worker);
    let (processes, prefork) = field.add_processes(most, python)?;
    for &count in &options.counts {
        let label = format!("{count} python process{}", if count == 1 { "" } else { "es" });
        field.line(label, "processes", count, processes[..count].to_vec(), 1);
    }
    // The same as for pools: the memory of the processes above must not include that of threads.
    let threaded = field.add("python process with threads", &mut python())?;
    field.line("1 python process, 2 threads", "process-threads", 2, vec![threaded], 2);
    for &count in &options.counts {
        let label = format!("{count} prefork with gc.freeze");
        field.line(label, "prefork", count, vec![prefork], 1);
    }
    Ok(field)
}

fn add_pool(field: &mut Field, options: &Options, count: usize) -> Result<()> {
    let exported = options.exported.clone();
    let pool = Ours::Models(ModelsPool { exported, interpreters: count });
    let contender = field.add(&format!("pool of {count}"), &mut pool.command()?)?;
    let plural = if count == 1 { "" } else { "s" };
    let label = format!("{count} interpreter{plural}");
    field.line(label, "interpreters", count, vec![contender], count);
    if count == 1 {
        // Threads take memory too (arenas of malloc, caches of kernels). Further interpreters are compared with
        // the pool of one; threads in that pool would make them look cheaper than they are.
        let name = "pool of 1, called by several threads";
        let contender = field.add(name, &mut pool.command()?)?;
        for &threads in options.counts.iter().filter(|&&threads| threads > 1) {
            let label = format!("1 interpreter, {threads} threads");
            field.line(label, "threads", threads, vec![contender], threads);
        }
    }
    Ok(())
}

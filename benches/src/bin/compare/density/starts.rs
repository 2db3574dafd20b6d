//! How long a further worker with torch takes to its first result: one alone, and several at once.
//!
//! Each round starts each contender anew. Its first worker is not counted: that one reads libraries that further ones share. The
//! memory that a contender takes goes back to the system before the next one starts.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use hydrozoa_measure::contender::Contender;
use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::median;

use super::kind::{Kind, Plan};
use super::side::{Grown, grow};
use crate::exported::Exported;

/// The others are compared with processes.
const KINDS: [Kind; 2] = [Kind::Spawn, Kind::Eager];

/// The goal: a start takes at most this share of a process's processor time.
const WANTED: f64 = 0.6;
/// Beyond this it is an error, by [`KINDS`].
const MOST: [f64; KINDS.len()] = [1.0, 0.8];

/// The goal for several starts at once: at most this multiple of one start alone, with two processors.
const WANTED_TOGETHER: f64 = 2.2;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    exported: Exported,
    /// The rivals' script, benches/python/density.py
    #[arg(long)]
    worker: PathBuf,
    /// How many rounds count
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How many workers start at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..))]
    together: u16,
}

/// One round of one contender, in seconds.
#[derive(Clone, Copy)]
struct Round {
    /// Of a clock, and of a processor, for one worker.
    alone: f64,
    cpu: f64,
    /// Of a clock, until each of several has its first result.
    together: f64,
}

pub fn run(options: &Options) -> Result<()> {
    let plan = Plan::eager(&options.exported, &options.worker);
    let mut rounds: [Vec<Round>; KINDS.len()] = [const { Vec::new() }; KINDS.len()];
    for round in 0..usize::from(options.rounds) {
        eprintln!("round {} of {}", round + 1, options.rounds);
        // Each kind is the first one in half of the rounds.
        let mut order: [usize; KINDS.len()] = std::array::from_fn(|at| at);
        order.rotate_left(round % KINDS.len());
        for at in order {
            rounds[at].push(measure(&plan, KINDS[at], options.together)?);
        }
    }
    report(&rounds, options.together)
}

fn measure(plan: &Plan, kind: Kind, together: u16) -> Result<Round> {
    let mut contender = Contender::ready(kind.label(), &mut plan.command(kind)?)?;
    grow(&mut contender, 1)?;
    let Grown { seconds: alone, cpu_seconds: cpu } = grow(&mut contender, 1)?;
    let together = grow(&mut contender, together.into())?.seconds;
    Ok(Round { alone, cpu, together })
}

/// Ratios of one kind over all rounds.
struct Ratios(Vec<f64>);

impl Ratios {
    fn of<'a>(
        rounds: &'a [Round],
        others: &'a [Round],
        ratio: impl Fn(&Round, &Round) -> f64,
    ) -> Self {
        Self(rounds.iter().zip(others).map(|(round, other)| ratio(round, other)).collect())
    }

    fn median(&self) -> f64 {
        median(&self.0)
    }
}

/// The median, and between which two all are.
impl fmt::Display for Ratios {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(0.0, f64::max);
        write!(formatter, "{:.2} ({least:.2}-{most:.2})", self.median())
    }
}

fn report(rounds: &[Vec<Round>; KINDS.len()], together: u16) -> Result<()> {
    let processes = &rounds[0];
    println!("{}", Machine::this().words());
    println!(
        "A further worker with torch and a model, to its first result; medians of {} rounds\n",
        processes.len()
    );
    println!(
        "| workers | s | s of a processor | of a process, by the clock | by processor time | {together} at once, of one alone |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    let mut cpu = Vec::new();
    for (kind, rounds) in KINDS.iter().zip(rounds) {
        let seconds = |of: fn(&Round) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
        let by_clock = Ratios::of(rounds, processes, |one, process| one.alone / process.alone);
        let by_cpu = Ratios::of(rounds, processes, |one, process| one.cpu / process.cpu);
        let at_once = Ratios::of(rounds, rounds, |one, _| one.together / one.alone);
        println!(
            "| {} | {:.2} | {:.2} | {by_clock} | {by_cpu} | {at_once} |",
            kind.label(),
            seconds(|round| round.alone),
            seconds(|round| round.cpu)
        );
        cpu.push(by_cpu.median());
    }
    println!(
        "\nwanted: {WANTED} of a process at most, and {WANTED_TOGETHER} for four at once on two processors; more than {} of a \
         process's processor time is an error",
        MOST[1]
    );
    for ((kind, ratio), most) in KINDS.iter().zip(cpu).zip(MOST) {
        ensure!(ratio <= most, "{}: {ratio:.2} of a process's processor time", kind.label());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_each_round_and_too_slow_a_start_is_an_error() {
        let round = |cpu| Round { alone: cpu, cpu, together: 2.0 * cpu };
        let rounds = |all: [f64; 3]| all.map(round).to_vec();
        let processes = rounds([1.0, 2.0, 4.0]);
        let half = rounds([0.5, 1.0, 2.0]);
        let ratios = Ratios::of(&half, &processes, |one, process| one.cpu / process.cpu);
        assert_eq!(ratios.to_string(), "0.50 (0.50-0.50)");
        report(&[processes.clone(), half], 4).unwrap();
        let slow = rounds([0.9, 1.7, 3.4]);
        let error = report(&[processes, slow], 4).unwrap_err();
        assert_eq!(error.to_string(), "interpreters, eager: 0.85 of a process's processor time");
    }
}

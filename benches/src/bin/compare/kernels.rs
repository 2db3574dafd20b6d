//! The speed of plain Python code in interpreters with eager imports, with a profile of imports, and with a profile and settled.
//!
//! The code is in benches/python/kernels. Each round starts new interpreters, one of each kind, and has them run each kernel by
//! turns. So neither the machine's other users nor the places of an interpreter's memory favour one kind. The measure is the
//! calling thread's CPU time.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hydrozoa::{Builder, Handle, ImportProfile, Imports, Pool};
use hydrozoa_measure::samples::median;

/// The speed that is wanted at least, as a share of that with eager imports.
const WANTED: f64 = 0.99;
/// A speed below this is an error. Other programs on a machine moved a mean of nine rounds by less than the difference.
const FLOOR: f64 = 0.97;

/// The kernel with a name that stays unbound under a profile. It has a figure of its own: docs/imports.md says what such names cost.
const UNBOUND: &str = "unbound";

/// Calls of a kernel before it is measured: CPython specialises code in its first calls, and settled memory that is used comes back.
const WARM: usize = 3;

#[derive(clap::Args)]
pub struct Options {
    /// The virtual environment
    #[arg(long)]
    venv: PathBuf,
    /// The folder with the kernels, benches/python
    #[arg(long)]
    scripts: PathBuf,
    /// The directory for settled interpreters' files, on a disk
    #[arg(long, value_name = "DIR")]
    settle_in: PathBuf,
    /// How many rounds count
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Calls of each kernel in each interpreter of a round; the median counts
    #[arg(long, default_value_t = 5)]
    calls: usize,
}

/// How an interpreter has its imports and its memory.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Eager,
    Profile,
    Settled,
}

const KINDS: [Kind; 3] = [Kind::Eager, Kind::Profile, Kind::Settled];

/// One kernel: its name, its result, and for each round the CPU seconds of a call by [`KINDS`].
struct Kernel {
    name: String,
    result: String,
    rounds: Vec<[f64; KINDS.len()]>,
}

pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.calls > 0, "--rounds and --calls: each at least 1");
    eprintln!("recording which modules the kernels need");
    let profile = builder(options).record_imports(|pool| {
        let session = pool.acquire()?;
        let names: Vec<String> = session.import("kernels")?.getattr("KERNELS")?.extract()?;
        let result = |name: &String| -> hydrozoa::Result<String> {
            session.import(&format!("kernels.{name}"))?.call_method("run", ())?.extract()
        };
        names.iter().map(result).collect::<hydrozoa::Result<Vec<String>>>()
    })?;
    ensure!(
        profile.left_out().any(|module| module == "kernels.rare"),
        "the profile has a module that no kernel needs: {profile}"
    );
    let mut kernels = kernels(options)?;
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        measure(options, &profile, round, &mut kernels)?;
    }
    report(&kernels)
}

fn builder(options: &Options) -> Builder {
    // Equal hashes in all interpreters: collisions in dicts would favour some.
    Pool::builder().interpreters(1).venv(&options.venv).path(&options.scripts).hash_seed(1)
}

/// The kernels with the results of an interpreter with eager imports.
fn kernels(options: &Options) -> Result<Vec<Kernel>> {
    let pool = builder(options).build()?;
    let session = pool.acquire()?;
    let names: Vec<String> = session.import("kernels")?.getattr("KERNELS")?.extract()?;
    let kernel = |name: String| -> Result<Kernel> {
        let result =
            session.import(&format!("kernels.{name}"))?.call_method("run", ())?.extract()?;
        Ok(Kernel { name, result, rounds: vec![] })
    };
    names.into_iter().map(kernel).collect()
}

/// One round: an interpreter of each kind runs each kernel.
fn measure(
    options: &Options,
    profile: &ImportProfile,
    round: usize,
    kernels: &mut [Kernel],
) -> Result<()> {
    // Each kind is the first one in a third of the rounds.
    let mut order = [0, 1, 2];
    order.rotate_left(round % KINDS.len());
    let mut sides: [Option<Side>; KINDS.len()] = [None, None, None];
    for at in order {
        sides[at] = Some(Side::start(options, profile, KINDS[at], kernels)?);
    }
    let sides = sides.map(|side| side.expect("each kind was started"));
    for (index, kernel) in kernels.iter_mut().enumerate() {
        let mut times = [const { Vec::new() }; KINDS.len()];
        for _ in 0..options.calls {
            for at in order {
                times[at].push(sides[at].seconds(index, kernel)?);
            }
        }
        kernel.rounds.push(times.map(|times| median(&times)));
    }
    Ok(())
}

/// An interpreter of one kind.
struct Side {
    _pool: Pool,
    /// `run` of each kernel.
    functions: Vec<Handle>,
}

impl Side {
    fn start(
        options: &Options,
        profile: &ImportProfile,
        kind: Kind,
        kernels: &[Kernel],
    ) -> Result<Self> {
        let imports = match kind {
            Kind::Eager => Imports::Eager,
            Kind::Profile | Kind::Settled => Imports::Profile(profile.clone()),
        };
        let pool = builder(options).imports(imports).build()?;
        let mut functions = Vec::new();
        for kernel in kernels {
            let session = pool.acquire()?;
            let module = session.import(&format!("kernels.{}", kernel.name))?;
            functions.push(module.getattr("run")?.keep());
        }
        let side = Self { _pool: pool, functions };
        side.warm(kernels)?;
        if kind == Kind::Settled {
            for interpreter in side._pool.interpreters().iter() {
                interpreter.settle(&options.settle_in)?;
            }
            side.warm(kernels)?;
        }
        Ok(side)
    }

    fn warm(&self, kernels: &[Kernel]) -> Result<()> {
        for (index, kernel) in kernels.iter().enumerate() {
            for _ in 0..WARM {
                self.seconds(index, kernel)?;
            }
        }
        Ok(())
    }

    /// CPU seconds of a call, whose result must be right.
    fn seconds(&self, index: usize, kernel: &Kernel) -> Result<f64> {
        let session = self.functions[index].session()?;
        let run = self.functions[index].attach(&session)?;
        let start = cpu_time();
        let result: String = run.call(())?.extract()?;
        let seconds = (cpu_time() - start).as_secs_f64();
        ensure!(result == kernel.result, "{}: results differ", kernel.name);
        Ok(seconds)
    }
}

/// The CPU time that this thread has taken so far.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux (clock_gettime(2)), and the kernel writes a whole structure.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "the clock of the thread's CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Kernel {
    /// The speed of a kind, as a share of that with eager imports: the median over the rounds.
    fn speed(&self, kind: usize) -> f64 {
        median(&self.rounds.iter().map(|times| times[0] / times[kind]).collect::<Vec<_>>())
    }

    fn milliseconds(&self) -> f64 {
        median(&self.rounds.iter().map(|times| times[0] * 1e3).collect::<Vec<_>>())
    }
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0), |(sum, count), value| (sum + f64::ln(value), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// Prints the table. Returns an error if a kind is slower than [`FLOOR`] on the whole.
fn report(kernels: &[Kernel]) -> Result<()> {
    let rounds = kernels.first().context("there are no kernels")?.rounds.len();
    println!("Speed as a share of that with eager imports; CPU time, medians of {rounds} rounds\n");
    println!("| kernel | eager, ms | profile | profile, settled |");
    println!("|---|---|---|---|");
    let row = |kernel: &Kernel| {
        println!(
            "| {} | {:.1} | {:.3} | {:.3} |",
            kernel.name,
            kernel.milliseconds(),
            kernel.speed(1),
            kernel.speed(2)
        );
    };
    let (unbound, bound): (Vec<&Kernel>, Vec<&Kernel>) =
        kernels.iter().partition(|kernel| kernel.name == UNBOUND);
    bound.iter().for_each(|kernel| row(kernel));
    let means = [1, 2].map(|kind| mean(bound.iter().map(|kernel| kernel.speed(kind))));
    println!("| geometric mean | | {:.3} | {:.3} |", means[0], means[1]);
    unbound.iter().for_each(|kernel| row(kernel));
    println!("\nwanted: a mean of {WANTED} at least; below {FLOOR} is an error");
    for (kind, mean) in ["profile", "profile, settled"].into_iter().zip(means) {
        ensure!(mean >= FLOOR, "{kind}: {mean:.3} of the speed with eager imports");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_the_median_of_the_rounds_ratios() {
        let rounds = vec![[1.0, 2.0, 1.0], [3.0, 3.0, 1.0], [1.0, 4.0, 1.0]];
        let kernel = Kernel { name: String::new(), result: String::new(), rounds };
        assert_eq!([kernel.speed(1), kernel.speed(2), kernel.milliseconds()], [0.5, 1.0, 1000.0]);
        assert!((mean([0.5, 2.0].into_iter()) - 1.0).abs() < 1e-12);
        let named = |name: &str, profile| {
            let rounds = vec![[1.0, 1.0 / profile, 1.0]];
            Kernel { name: name.to_owned(), result: String::new(), rounds }
        };
        // The kernel with an unbound name is printed, and does not decide.
        report(&[named("floats", 1.0), named(UNBOUND, 0.5)]).unwrap();
        let error = report(&[named("floats", 0.9), named(UNBOUND, 1.0)]).unwrap_err();
        assert_eq!(error.to_string(), "profile: 0.900 of the speed with eager imports");
    }
}

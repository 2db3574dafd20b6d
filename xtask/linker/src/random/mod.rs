//! Random programs: graphs of small libraries. Both glibc and the loader load, query and close them.
//!
//! [`draw`] draws a program ([`model`]) from a seed, [`render`] writes it as C, and [`build`] builds it. [`compare`]
//! runs it by glibc, by the loader in a domain that extends the program, alone, and as three interleaved replicas.
//! Every function prints which library defined each thing that it sees, so a program's output contains all of its
//! meaning. [`shrink`] shrinks a program with a difference, and the task shows it.

mod build;
mod compare;
mod draw;
mod model;
mod numbers;
mod render;
mod shrink;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};

use super::cases;
use compare::Verdict;
use model::Program;
use xtask_support::steps::{Count, Outcome};
use xtask_support::{parallel, workspace};

/// The seed of the programs that every run of the cases includes.
pub const QUICK_SEED: u64 = 1;
/// Their number: they take about ten seconds on one core.
pub const QUICK_COUNT: u64 = 24;

/// The results of all programs.
#[derive(Default)]
struct Tally {
    same: u64,
    libraries: usize,
    operations: usize,
    lines: usize,
    oracle_died: u64,
    apart: u64,
    unlinked: u64,
    failures: Vec<String>,
}

impl Tally {
    /// The number of programs that are done.
    fn done(&self) -> u64 {
        let judged = self.same + self.oracle_died + self.apart + self.unlinked;
        judged + self.failures.len() as u64
    }
}

/// The number of programs between two lines of progress.
const PROGRESS: u64 = 100;

/// Linkers fail on few programs. If they fail on more than one in this many, the run fails: its programs are at fault.
const UNLINKED_IN: u64 = 200;

/// Runs `count` programs from `seed` on and shows the differences. Returns the number of passed programs and the ones
/// that differ.
pub fn run(count: u64, seed: u64) -> Result<Outcome> {
    let root = cases::target()?.join("linker-random");
    let place = Workshop {
        support: cases::support(&root)?,
        headers: workspace::root().join("tests/linker/include"),
        root,
    };
    for linker in build::absent() {
        println!("{linker} is not installed: bfd takes its place");
    }
    let tally = Mutex::new(Tally::default());
    let started = Instant::now();
    parallel::each(0..count, |number| {
        one(seed + number, &place, &tally)?;
        let tally = tally.lock().expect("no panic holds it");
        if tally.done().is_multiple_of(PROGRESS) {
            let (done, differ) = (tally.done(), tally.failures.len());
            let seconds = started.elapsed().as_secs();
            eprintln!("{done} of {count} programs, {differ} differ, {seconds} s");
        }
        Ok(())
    })?;
    let mut tally = tally.into_inner().expect("no panic holds it");
    println!(
        "random programs from seed {seed}: {} the same, {} differ, {} end glibc's run too, {} come to a \
         difference by design, {} are not linked by their linker; {} libraries, {} operations, {} lines compared, \
         {:.1} s",
        tally.same,
        tally.failures.len(),
        tally.oracle_died,
        tally.apart,
        tally.unlinked,
        tally.libraries,
        tally.operations,
        tally.lines,
        started.elapsed().as_secs_f64()
    );
    if tally.unlinked > count.div_ceil(UNLINKED_IN) {
        let unlinked = tally.unlinked;
        tally.failures.push(format!("linkers failed on {unlinked} of {count} programs"));
    }
    let count = Count { passed: tally.same as usize, failed: tally.failures.len() };
    Ok(Outcome { count, failures: tally.failures })
}

/// The folder in which programs are built, and the inputs of the build.
struct Workshop {
    root: PathBuf,
    support: PathBuf,
    headers: PathBuf,
}

impl Workshop {
    /// Builds and runs the program in a folder of its own.
    fn judge(&self, program: &Program, folder: &Path) -> Result<Verdict> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        match build::build(program, folder, &self.headers) {
            Ok(()) => compare::compare(program, folder, &self.support),
            Err(error) => error.downcast().map(Verdict::Unlinked),
        }
    }
}

/// Runs the program of `seed`. A program that differs is shrunk, shown and kept in its folder.
fn one(seed: u64, place: &Workshop, tally: &Mutex<Tally>) -> Result<()> {
    let program = draw::program(seed);
    let folder = place.root.join(seed.to_string());
    let verdict = place.judge(&program, &folder).with_context(|| format!("seed {seed}"))?;
    {
        let mut tally = tally.lock().expect("no panic holds it");
        tally.libraries += program.libraries.len();
        tally.operations += program.operations();
        match &verdict {
            Verdict::Same(lines) => {
                tally.same += 1;
                tally.lines += lines;
            }
            Verdict::OracleDies(_) => tally.oracle_died += 1,
            Verdict::Apart => tally.apart += 1,
            Verdict::Unlinked(_) => tally.unlinked += 1,
            Verdict::Differs(difference) => {
                tally.failures.push(format!("seed {seed}: {difference}"));
            }
        }
    }
    match verdict {
        Verdict::Same(_) | Verdict::Apart => fs::remove_dir_all(&folder)?,
        Verdict::Unlinked(failure) => {
            println!("seed {seed}: {failure}");
            fs::remove_dir_all(&folder)?;
        }
        Verdict::OracleDies(how) => {
            println!("seed {seed}: glibc crashes: {how}");
            fs::remove_dir_all(&folder)?;
        }
        Verdict::Differs(difference) => {
            println!("FAILED seed {seed}: {difference}");
            let differs = |smaller: &Program| match place.judge(smaller, &folder) {
                Ok(Verdict::Differs(other)) => kind(&other) == kind(&difference),
                _ => false,
            };
            let small = shrink::shrink(program, differs);
            // The last attempt to shrink it built another program, so this one is built again.
            let verdict = place.judge(&small, &folder)?;
            println!("seed {seed}, shrunk, in {}: {verdict:?}\n{small}", folder.display());
        }
    }
    Ok(())
}

/// Distinguishes one fault from another: the kind of difference and its first two lines, verbatim, without the lines
/// that number the operations.
fn kind(difference: &str) -> Vec<&str> {
    let is_number =
        |line: &&str| line.trim_start_matches([' ', '+', '-']).starts_with(char::is_numeric);
    difference.lines().filter(|line| !is_number(line)).take(3).collect()
}

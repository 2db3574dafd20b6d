//! Random operations of the public interface by eight threads, each answer checked: is anything lost, wrong or stuck, and does
//! memory stay bounded?
//!
//! | file | is |
//! |---|---|
//! | `table` | the operations and their weights |
//! | `calls`, `objects`, `futures`, `limits`, `python`, `pools` | the operations |
//! | `world` | what all threads share |
//! | `errands` | what one thread begins and another one ends |
//! | `watch` | the watchdog, and samples of memory |
//! | `fault` | which operation a crash is of |
//! | `balance` | what is left at the end |
//!
//! A thread's operations, and the numbers in them, follow from the seed. When they meet those of other threads does not.

mod balance;
mod calls;
mod errands;
mod fault;
mod futures;
mod limits;
mod objects;
mod pools;
mod python;
mod table;
mod watch;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use fastrand::Rng;
use hydrozoa::Error;

use crate::threads::join;
use balance::Balance;
use table::{OPERATIONS, Operation};
use world::{THREADS, World};

#[derive(clap::Args)]
pub struct Options {
    /// A Python: an executable, a prefix or a library; without it the one that hydrozoa finds
    #[arg(long)]
    python: Option<PathBuf>,
    /// The virtual environment with numpy; without it nothing but the standard library is used
    #[arg(long)]
    venv: Option<PathBuf>,
    /// Each operation begins with tensors of the environment's torch
    #[arg(long, requires = "venv")]
    torch: bool,
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value_t = 10.0)]
    minutes: f64,
    /// The seed of all random numbers; without it another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// Only these operations
    #[arg(long, value_delimiter = ',', conflicts_with = "without")]
    only: Vec<String>,
    /// All operations but these
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
}

/// One operation of one thread.
struct Turn {
    thread: usize,
    random: Rng,
}

pub fn run(options: &Options) -> Result<()> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("seed {seed}");
    fault::install(seed)?;
    let operations = selected(options)?;
    let packages: &[&str] = if options.torch { &["torch"] } else { &[] };
    let before = Balance::after_warm_up(world::builder(options)?, packages)?;
    let world = World::new(options)?;
    let points = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (world, operations) = (&world, &operations);
                scope.spawn(move || {
                    one_thread(world, operations, seed, thread).inspect_err(|error| {
                        eprintln!("error: {error:#}");
                        world.stop.store(true, Ordering::Relaxed);
                    })
                })
            })
            .collect();
        let points = watch::watch(&world, options.minutes * 60.0, seed);
        world.stop.store(true, Ordering::Relaxed);
        watch::join_within(&threads, &world, seed);
        join(threads)?;
        points
    })?;
    report(&world);
    balance::check(world, &before, &points).with_context(|| format!("seed {seed}, at the end"))
}

/// The operations that the options leave, by their weights.
fn selected(options: &Options) -> Result<Vec<usize>> {
    for name in options.only.iter().chain(&options.without) {
        ensure!(OPERATIONS.iter().any(|one| one.name == name), "there is no operation {name}");
    }
    let is_wanted = |one: &Operation| match options.only.is_empty() {
        true => options.without.iter().all(|name| name != one.name),
        false => options.only.iter().any(|name| name == one.name),
    };
    let wanted = OPERATIONS.iter().enumerate().filter(|(_, one)| is_wanted(one));
    Ok(wanted.flat_map(|(index, one)| std::iter::repeat_n(index, one.weight)).collect())
}

fn one_thread(world: &World, operations: &[usize], seed: u64, thread: usize) -> Result<()> {
    let mut random = Rng::with_seed(seed.wrapping_add(thread as u64));
    while !world.stop.load(Ordering::Relaxed) {
        let operation = operations[random.usize(..operations.len())];
        let name = OPERATIONS[operation].name;
        let number = world.progress[thread].begin(operation);
        fault::note(thread, number, name);
        // A generator of its own: what an operation draws changes no later one.
        let mut turn = Turn { thread, random: random.fork() };
        let mut run = || {
            world.tensors(&mut turn)?;
            (OPERATIONS[operation].run)(world, &mut turn)
        };
        let done = catch_unwind(AssertUnwindSafe(&mut run));
        let done = done.unwrap_or_else(|_| Err(anyhow!("a panic, whose message is above")));
        done.map_err(|error| {
            let traceback = error.downcast_ref().and_then(Error::traceback).unwrap_or_default();
            anyhow!(
                "seed {seed}, thread {thread}, operation {number} ({name}): {error:#}\n{traceback}"
            )
        })?;
        world.progress[thread].end();
    }
    Ok(())
}

fn report(world: &World) {
    println!("{THREADS} threads on {} interpreters, every answer right:", world::INTERPRETERS);
    for (index, operation) in OPERATIONS.iter().enumerate() {
        let count: u64 = world.progress.iter().map(|thread| thread.count(index)).sum();
        if count > 0 {
            println!("{count:>9} {}", operation.name);
        }
    }
    world.print_counts();
}

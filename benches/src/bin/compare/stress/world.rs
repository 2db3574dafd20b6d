//! The state that all threads of the stress share.

use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use hydrozoa::{Builder, Interpreter, Movable, Object, Pool, Session, WeakInterpreter};
use hydrozoa_measure::samples::percentile;

use super::errands::Errand;
use super::table::OPERATIONS;
use super::{Options, Turn};

pub const INTERPRETERS: usize = 4;
pub const THREADS: usize = 8;
/// The interpreters from this one on have threads of Python that stay: event loops, and daemons. The others can be settled.
pub const BUSY: usize = 2;
/// Random numbers have so many seeds.
const SEEDS: usize = 64;

pub struct World {
    pub pool: Pool,
    /// The settings of every pool, and for how many interpreters.
    builder: Builder,
    pub torch: bool,
    pub movables: [Mutex<Option<Movable>>; 8],
    pub errands: Mutex<Vec<Errand>>,
    /// The results of `digest` for each seed.
    digests: Vec<i64>,
    pub alive: Arc<Alive>,
    /// Interpreters that were replaced, the last of them.
    pub older: Mutex<VecDeque<WeakInterpreter>>,
    pub progress: [Progress; THREADS],
    pub stop: AtomicBool,
    pub ended: AtomicU64,
    pub settled: AtomicU64,
    stuck: Arc<AtomicU64>,
    /// Interrupts, and deadlines, at any place of Python's own code.
    pub anywhere: AtomicU64,
    /// Milliseconds from an interrupt, or a deadline, to the error.
    pub interrupts: Mutex<Vec<f64>>,
    pub deadlines: Mutex<Vec<f64>>,
}

/// The progress of one thread.
pub struct Progress {
    /// An index of the table, or its length between two operations.
    pub operation: AtomicUsize,
    /// How many it has begun.
    pub number: AtomicU64,
    counts: [AtomicU64; OPERATIONS.len()],
}

impl Progress {
    fn new() -> Self {
        Self {
            operation: AtomicUsize::new(OPERATIONS.len()),
            number: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Returns the operation's number, from 0.
    pub fn begin(&self, operation: usize) -> u64 {
        self.operation.store(operation, Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    pub fn end(&self) {
        let operation = self.operation.swap(OPERATIONS.len(), Ordering::Relaxed);
        self.counts[operation].fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self, operation: usize) -> u64 {
        self.counts[operation].load(Ordering::Relaxed)
    }
}

/// Things of Rust that Python has, or that an errand has: how many, by the lines that made them.
#[derive(Default)]
pub struct Alive(Mutex<BTreeMap<Origin, u64>>);

type Origin = &'static Location<'static>;

impl Alive {
    /// The living objects as text; empty if none is left.
    pub fn text(&self) -> String {
        let alive = lock(&self.0);
        let alive = alive.iter().filter(|(_, count)| **count > 0);
        alive.map(|(place, count)| format!("{count} of {place}")).collect::<Vec<_>>().join(", ")
    }
}

/// One thing that is counted while it exists.
pub struct Token(Arc<Alive>, Origin);

impl Drop for Token {
    fn drop(&mut self) {
        *lock(&self.0.0).entry(self.1).or_default() -= 1;
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The directory for settled memory: not that for temporary files, which may be in memory.
pub fn directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().context("a program lies in a directory")?.to_owned())
}

/// The settings of all pools.
pub fn builder(options: &Options) -> Result<Builder> {
    let mut builder = Pool::builder().settle_in(directory()?);
    if let Some(python) = &options.python {
        builder = builder.python(python);
    }
    if let Some(venv) = &options.venv {
        builder = builder.venv(venv);
    }
    Ok(builder)
}

impl World {
    pub fn new(options: &Options) -> Result<Self> {
        let kind = match (&options.venv, options.torch) {
            (None, _) => "bare",
            (Some(_), false) => "numpy",
            (Some(_), true) => "torch",
        };
        let builder = builder(options)?;
        let stuck = Arc::new(AtomicU64::new(0));
        let reported = stuck.clone();
        let pool = builder
            .clone()
            .interpreters(INTERPRETERS)
            .dense(directory()?)
            .replace_stuck(true)
            .on_stuck(move |_| {
                reported.fetch_add(1, Ordering::Relaxed);
            })
            .build()?;
        pool.register_module("stress", &format!("KIND = {kind:?}\n{}", include_str!("stress.py")))?;
        println!("{:?}, {kind}", pool.python().library());
        let session = pool.acquire_on(0)?;
        let stress = session.import("stress")?;
        let digests = (0..SEEDS)
            .map(|seed| Ok(stress.call_method("digest", (seed,))?.extract()?))
            .collect::<Result<_>>()?;
        drop(stress);
        drop(session);
        Ok(Self {
            pool,
            builder,
            torch: options.torch,
            movables: Default::default(),
            errands: Mutex::default(),
            digests,
            alive: Arc::default(),
            older: Mutex::default(),
            progress: std::array::from_fn(|_| Progress::new()),
            stop: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            stuck,
            anywhere: AtomicU64::new(0),
            interrupts: Mutex::default(),
            deadlines: Mutex::default(),
        })
    }

    /// The settings of a pool beside.
    pub fn beside(&self) -> Builder {
        self.builder.clone()
    }

    #[track_caller]
    pub fn token(&self) -> Token {
        let place = Location::caller();
        *lock(&self.alive.0).entry(place).or_default() += 1;
        Token(self.alive.clone(), place)
    }

    /// Notes an interpreter that is the pool's no longer.
    pub fn note_older(&self, interpreter: &Interpreter) {
        let mut older = lock(&self.older);
        if older.len() == 2 * THREADS {
            older.pop_front();
        }
        older.push_back(interpreter.downgrade());
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// How many interpreters have ended.
    pub fn ends(&self) -> u64 {
        self.ended.load(Ordering::Relaxed) + self.stuck.load(Ordering::Relaxed)
    }

    /// A session, by one of the ways to get one.
    pub fn session(&self, turn: &mut Turn) -> Result<Session> {
        let index = turn.random.usize(..INTERPRETERS);
        Ok(match turn.random.u8(..5) {
            0 => self.pool.acquire_preferring(|one| one.index() == index)?,
            1 => self.pool.try_acquire().or_else(|_| self.pool.acquire())?,
            2 | 3 => self.interpreter(index).session(),
            _ => self.pool.acquire()?,
        })
    }

    /// One of the pool's interpreters. Another thread may have made the pool smaller.
    pub fn interpreter(&self, index: usize) -> Interpreter {
        let all = self.pool.interpreters();
        all[index.min(all.len() - 1)].clone()
    }

    /// One of those that may have threads that stay. It has the module.
    pub fn busy(&self, turn: &mut Turn) -> Result<Interpreter> {
        let interpreter = self.interpreter(turn.random.usize(BUSY..INTERPRETERS));
        stress(&interpreter.session())?;
        Ok(interpreter)
    }

    /// With torch: random tensors on a random interpreter.
    pub fn tensors(&self, turn: &mut Turn) -> Result<()> {
        match self.torch {
            true => self.check_digest(&self.session(turn)?, turn),
            false => Ok(()),
        }
    }

    pub fn check_digest(&self, session: &Session, turn: &mut Turn) -> Result<()> {
        let seed = turn.random.usize(..SEEDS);
        let answer: i64 = stress(session)?.call_method("digest", (seed,))?.extract()?;
        ensure!(answer == self.digests[seed], "digest({seed}) is {answer}");
        Ok(())
    }

    pub fn print_counts(&self) {
        let [settled, stuck, anywhere] = [&self.settled, &*self.stuck, &self.anywhere]
            .map(|count| count.load(Ordering::Relaxed));
        println!(
            "{} interpreters have ended, of {stuck} stuck calls were reported; {settled} were settled; {anywhere} \
             interrupts and deadlines fell into imports, threads, queues and finalizers",
            self.ends()
        );
        for (what, times) in
            [("an interrupt", &self.interrupts), ("the end of a deadline", &self.deadlines)]
        {
            let times = lock(times);
            if !times.is_empty() {
                let [median, late] = [0.5, 0.99].map(|quantile| percentile(&times, quantile));
                println!(
                    "milliseconds from {what} to the error: median {median:.1}, p99 {late:.1}"
                );
            }
        }
    }
}

/// The module of Python.
///
/// Before others import from `collections.abc`, it is imported as a whole. Two threads that import it first at once fail in CPython
/// 3.13, as in 253 of 3,000 runs of plain python: the module replaces itself in `sys.modules` (Lib/collections/abc.py), and one that has
/// waited for it has the other module (`PyImport_ImportModuleLevelObject` in Python/import.c).
pub fn stress(session: &Session) -> hydrozoa::Result<Object<'_>> {
    session.import("collections.abc")?;
    session.import("stress")
}

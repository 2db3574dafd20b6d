//! C++ exceptions through replicas: two threads throw across two libraries, in all domains in turn. The same under
//! glibc alone runs in a process that has never used our loader.

use std::ffi::{c_long, c_void};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_loader::{Domain, Loader, OpenFlags};

use crate::fixture::{Folder, SystemLibrary};
use crate::rounds::Rounds;

const THROWER: &str = r#"
struct Thrown { long value; };
struct Guard { long &count; ~Guard() { ++count; } };
static long unwound;
extern "C" __attribute__((noinline)) void throw_it(long value, int depth) {
    if (depth == 0) throw Thrown{value};
    Guard guard{unwound};
    throw_it(value, depth - 1);
}
"#;

const CATCHER: &str = r#"
struct Thrown { long value; };
extern "C" long catch_many(void (*throw_it)(long, int), long count) {
    long sum = 0;
    for (long i = 0; i < count; i++) {
        try { throw_it(1, 3); } catch (const Thrown &thrown) { sum += thrown.value; }
    }
    return sum;
}
"#;

const THREADS: usize = 2;

#[derive(clap::Args)]
pub struct Options {
    /// How many domains
    #[arg(long, default_value_t = 64)]
    domains: usize,
    /// Throws in a round, on all threads together
    #[arg(long, default_value_t = 100_000)]
    throws: usize,
    /// How many rounds
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

#[derive(clap::Args)]
pub struct Thrower {
    /// The folder with the two libraries
    folder: PathBuf,
    /// Load by glibc's dlopen instead of our loader
    #[arg(long)]
    glibc: bool,
    /// How often to load them
    #[arg(long)]
    copies: usize,
    /// Throws in a round
    #[arg(long)]
    throws: usize,
}

pub fn run(options: &Options) -> Result<()> {
    let folder = Folder::new("exceptions")?;
    folder.compile("libthrower.so", THROWER, &[])?;
    folder.compile("libcatcher.so", CATCHER, &[])?;
    let start =
        |glibc: bool, copies: usize| Process::start(folder.path(), glibc, copies, options.throws);
    let (mut ours, mut alone) = (start(false, options.domains)?, start(true, 1)?);
    let rounds = Rounds::measure(options.rounds, || ours.round(), || alone.round())?;
    let mut crowded = start(true, options.domains)?;
    let beside = Rounds::measure(options.rounds, || ours.round(), || crowded.round())?;
    println!(
        "for comparison, {} copies of the files under glibc: ratio {:.3}",
        options.domains,
        beside.ratio()
    );
    let what = format!("a C++ throw, {THREADS} threads, {} domains", options.domains);
    rounds.report(&what, options.throws as f64 * 1e-6, "us", 1.2)
}

/// A process that throws on command.
struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(folder: &Path, glibc: bool, copies: usize, throws: usize) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("thrower").arg(folder);
        command.args(["--copies", &copies.to_string(), "--throws", &throws.to_string()]);
        if glibc {
            command.arg("--glibc");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take().context("it was piped")?;
        let answers = BufReader::new(child.stdout.take().context("it was piped")?);
        Ok(Process { child, orders, answers })
    }

    fn round(&mut self) -> Result<Duration> {
        self.orders.write_all(b"go\n")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let nanoseconds = answer.trim().parse().context("a thrower failed")?;
        Ok(Duration::from_nanos(nanoseconds))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One pair of the libraries.
struct Pair {
    throw: extern "C-unwind" fn(c_long, i32),
    catch: extern "C-unwind" fn(extern "C-unwind" fn(c_long, i32), c_long) -> c_long,
    _domain: Option<Domain>,
}

impl Pair {
    fn new(throw: *const c_void, catch: *const c_void, domain: Option<Domain>) -> Pair {
        // SAFETY: the sources declare these signatures.
        unsafe {
            Pair {
                throw: std::mem::transmute::<*const c_void, extern "C-unwind" fn(c_long, i32)>(
                    throw,
                ),
                catch: std::mem::transmute::<
                    *const c_void,
                    extern "C-unwind" fn(extern "C-unwind" fn(c_long, i32), c_long) -> c_long,
                >(catch),
                _domain: domain,
            }
        }
    }
}

/// Answers each line of standard input with the nanoseconds that a round took.
pub fn throw(options: &Thrower) -> Result<()> {
    let (thrower, catcher) =
        (options.folder.join("libthrower.so"), options.folder.join("libcatcher.so"));
    let mut pairs = Vec::new();
    if options.glibc {
        for copy in 0..options.copies {
            let open = |path: &Path| {
                // Without a soname, glibc treats a copy as another library.
                let file = path.with_extension(format!("{}.{copy}", std::process::id()));
                fs::copy(path, &file)?;
                SystemLibrary::open(&file, libc::RTLD_NOW | libc::RTLD_LOCAL)
            };
            let (thrower, catcher) = (open(&thrower)?, open(&catcher)?);
            pairs.push(Pair::new(
                thrower.symbol(c"throw_it")?,
                catcher.symbol(c"catch_many")?,
                None,
            ));
        }
    } else {
        let loader = Loader::builder().build()?;
        for _ in 0..options.copies {
            let domain = loader.domain("thrower").build()?;
            // SAFETY: the sources above; the libraries have no state.
            let (thrower, catcher) = unsafe {
                (domain.open(&thrower, OpenFlags::NOW)?, domain.open(&catcher, OpenFlags::NOW)?)
            };
            let (throw, catch) = (thrower.symbol("throw_it")?, catcher.symbol("catch_many")?);
            pairs.push(Pair::new(throw, catch, Some(domain)));
        }
    }
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "go" => println!("{}", round(&pairs, options.throws)?.as_nanos()),
            other => bail!("no such order: {other}"),
        }
    }
    Ok(())
}

/// Both threads go through all pairs, one throw at a time.
fn round(pairs: &[Pair], throws: usize) -> Result<Duration> {
    let barrier = Barrier::new(THREADS);
    let each = throws / THREADS;
    let durations = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    let caught: c_long = (0..each)
                        .map(|index| {
                            let pair = &pairs[(thread + index) % pairs.len()];
                            (pair.catch)(pair.throw, 1)
                        })
                        .sum();
                    (start.elapsed(), caught)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut longest = Duration::ZERO;
    for duration in durations {
        let Ok((duration, caught)) = duration else { bail!("a thread panicked") };
        ensure!(caught == each as c_long, "{caught} of {each} were caught");
        longest = longest.max(duration);
    }
    Ok(longest)
}

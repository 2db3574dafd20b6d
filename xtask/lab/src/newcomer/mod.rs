//! `cargo xtask lab newcomer`: the README, followed from its top as a new user follows it, in an empty root.
//!
//! The root has a Debian with a C++ compiler and a CPython, this machine's Rust, and a clean checkout. Every sample of the
//! README is run as it is written, in the order of the page. Crates and wheels come from their registries, by cargo and pip
//! with this machine's configuration and caches.

mod page;
mod root;

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::steps::Count;

use page::{LEFT_OUT, Page, Step};
use root::Root;

/// Options of `cargo xtask lab newcomer`.
#[derive(clap::Args, Default)]
pub struct Arguments {
    /// Compile all of it, as the first time, and compare the CPU minutes with those that the README states
    #[arg(long)]
    fresh: bool,
    /// Go on in the root that a failed run has left, at the first sample that contains this text
    #[arg(long, value_name = "TEXT", conflicts_with = "fresh")]
    from: Option<String>,
}

/// The cost of a sample.
struct Taken {
    sample: String,
    seconds: f64,
    /// Time of all processors, of the sample's processes that have ended.
    cpu_minutes: f64,
}

/// Follows the README.
///
/// # Errors
///
/// A sample fails. The root stays then, for [`Arguments::from`].
pub fn run(arguments: &Arguments) -> Result<Count> {
    let page = Page::parse(&page::text()?)?;
    let root = Root::prepare(arguments.fresh, arguments.from.is_some())?;
    let mut taken = Vec::new();
    let mut steps = page.steps.iter().peekable();
    if let Some(text) = &arguments.from {
        while steps.next_if(|step| !step.to_string().contains(text)).is_some() {}
        ensure!(steps.peek().is_some(), "no sample contains {text}");
    }
    for step in steps {
        if let Some((line, reason)) = step.left_out() {
            println!("\nleft out: {line} ({reason})");
            continue;
        }
        println!("\n{step}");
        let (start, cpu) = (Instant::now(), cpu_minutes()?);
        follow(step, &root).with_context(|| format!("the README says {:?}", step.to_string()))?;
        let cpu_minutes = cpu_minutes()? - cpu;
        let seconds = start.elapsed().as_secs_f64();
        println!("({seconds:.0} s, {cpu_minutes:.1} CPU minutes)");
        taken.push(Taken { sample: step.to_string(), seconds, cpu_minutes });
    }
    summary(&taken);
    if arguments.fresh {
        compare(&taken)?;
    }
    root.remove()?;
    Ok(Count { passed: taken.len(), failed: 0 })
}

fn follow(step: &Step, root: &Root) -> Result<()> {
    match step {
        Step::Write { name, text } => root.write(name, text),
        Step::Run(line) => root.run(line),
        Step::Serve(line) => {
            root.run(&format!(": > server.log\n(exec {line}\n) >> server.log 2>&1 & {SERVE}"))
        }
        Step::Python(text) => {
            root.write("sample.py", text)?;
            root.run("venv/bin/python sample.py")
        }
        Step::Dependency(text) => {
            root.write("dependency.toml", text)?;
            root.run(CRATE)
        }
    }
}

/// Starts the server, waits until it says that it is ready, and ends it as an administrator does.
const SERVE: &str = "server=$!
timeout 600 tail --lines=+1 --follow --pid=$server server.log | grep --quiet --max-count=1 'the server is ready'
ready=$?
kill -TERM $server
wait $server
status=$?
cat server.log
[ $ready = 0 ] && [ $status = 0 ]
";

/// A crate beside the checkout that depends on it, with the first sample. Crates that the checkout has compiled are reused.
const CRATE: &str = "rm -rf ../app && cargo new --quiet ../app && cd ../app &&
sed -i '/^\\[dependencies\\]/d' Cargo.toml && cat ../hydrozoa/dependency.toml >> Cargo.toml &&
cp ../hydrozoa/Cargo.lock . && cp ../hydrozoa/runtime/examples/primes.rs src/main.rs &&
CARGO_TARGET_DIR=../hydrozoa/target cargo run --quiet --release
";

fn summary(taken: &[Taken]) {
    println!("\n{:>8} {:>12}  sample", "seconds", "CPU minutes");
    for Taken { sample, seconds, cpu_minutes } in taken {
        let line = sample.lines().next().unwrap_or_default();
        println!("{seconds:>8.0} {cpu_minutes:>12.1}  {line}");
    }
    for (line, reason) in LEFT_OUT {
        println!("left out: {line} ({reason})");
    }
}

/// Fails if a sample took twice the time that it states. Other machines are faster or slower than the one of the README.
fn compare(taken: &[Taken]) -> Result<()> {
    for Taken { sample, cpu_minutes, .. } in taken {
        if let Some(stated) = page::stated_minutes(sample)
            && *cpu_minutes > 2.0 * stated
        {
            bail!("{sample:?} took {cpu_minutes:.1} CPU minutes: state it in the README");
        }
    }
    Ok(())
}

/// The processors' time of all children that have ended and been waited for, and of theirs.
fn cpu_minutes() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // cutime and cstime are fields 16 and 17; the third follows the name's parenthesis (proc_pid_stat(5)).
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat has a name")?;
    let ticks = fields.split(' ').skip(13).take(2).map(|field| field.parse::<f64>());
    // The kernel counts in hundredths of a second for programs, whatever its own clock (USER_HZ).
    Ok(ticks.sum::<Result<f64, _>>()? / 6000.0)
}

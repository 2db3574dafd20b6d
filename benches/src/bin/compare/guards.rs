//! The time that a call takes longer in an interpreter that contains its crashes.
//!
//! Two interpreters of each kind take turns, so that neither the place of their memory nor the machine's other work decides. The
//! shortest of the rounds counts.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use hydrozoa::{Object, Pool, Session};

/// The time that is promised at most, in nanoseconds, for a call by a thread that has the GIL or enters for it.
const PROMISED: f64 = 25.0;

/// Interpreters without containment, and with.
const EACH: usize = 2;

#[derive(clap::Args)]
pub struct Options {
    /// The virtual environment
    #[arg(long)]
    venv: PathBuf,
    /// How many rounds there are
    #[arg(long, default_value_t = 60)]
    rounds: usize,
    /// Calls of a round
    #[arg(long, default_value_t = 20_000)]
    calls: u32,
}

pub fn run(options: &Options) -> Result<()> {
    let pool = |contains| {
        let builder = Pool::builder().interpreters(EACH).venv(&options.venv);
        builder.contain_crashes(contains).build()
    };
    let pools = [pool(false)?, pool(true)?];
    // By what is done, and by whether crashes are contained.
    let mut shortest = [[f64::MAX; 2]; 3];
    for _ in 0..options.rounds {
        for index in 0..EACH {
            for (contains, pool) in pools.iter().enumerate() {
                let session = pool.acquire_on(index)?;
                let nothing = session.eval("lambda: None")?;
                let outside = timed(&nothing, options.calls)?;
                let held = session.with_gil(|| timed(&nothing, options.calls))?;
                let visit = timed_visits(&session, options.calls);
                for (row, time) in shortest.iter_mut().zip([visit, outside, held]) {
                    row[contains] = row[contains].min(time);
                }
            }
        }
    }
    println!("Nanoseconds of a call of `lambda: None`; the shortest of the rounds\n");
    println!("| by a thread | crashes end the process | crashes are contained | more |");
    println!("|:---|---:|---:|---:|");
    let names =
        ["that enters and leaves, without a call", "that enters for it", "that has the GIL"];
    for (name, [without, with]) in names.iter().zip(shortest) {
        println!("| {name} | {without:.1} | {with:.1} | {:.1} |", with - without);
    }
    let [_, calls @ ..] = shortest;
    let more = calls.map(|[without, with]| with - without).into_iter().fold(0.0, f64::max);
    ensure!(more <= PROMISED, "a call takes {more:.1} ns more, {PROMISED} promised");
    Ok(())
}

/// Nanoseconds of a visit in which nothing is done.
fn timed_visits(session: &Session, calls: u32) -> f64 {
    let begin = Instant::now();
    for _ in 0..calls {
        session.with_gil(|| ());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Nanoseconds of a call.
fn timed(function: &Object<'_>, calls: u32) -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..calls {
        function.call(())?;
    }
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(calls))
}

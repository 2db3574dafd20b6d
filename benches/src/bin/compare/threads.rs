//! Threads that work until a time is over or one of them fails, while somebody watches memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hydrozoa::memory::Usage;
use hydrozoa_measure::trend::Trend;

/// Waits for threads and returns the first failure. The scope of the threads waits for the others.
pub fn join(threads: Vec<ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    for thread in threads {
        match thread.join() {
            Ok(done) => done?,
            Err(_) => bail!("a thread panicked"),
        }
    }
    Ok(())
}

/// Has each of some threads take one turn after the other. Returns private memory in KiB over minutes, sampled once a second.
///
/// `turn` gets the thread's number and the turn's, `progress` says from time to time what was done, and `look` is called
/// with each sample.
pub fn take_turns(
    threads: usize,
    seconds: f64,
    turn: impl Fn(usize, usize) -> Result<()> + Sync,
    progress: impl Fn() -> String,
    mut look: impl FnMut(),
) -> Result<Vec<(f64, f64)>> {
    let stop = AtomicBool::new(false);
    let work = |thread| -> Result<()> {
        let done = (0..)
            .take_while(|_| !stop.load(Ordering::Relaxed))
            .try_for_each(|number| turn(thread, number));
        // A thread that fails ends the run.
        stop.store(true, Ordering::Relaxed);
        done
    };
    thread::scope(|scope| {
        let work = &work;
        let threads = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let begin = Instant::now();
        let mut watch = || -> Result<Vec<(f64, f64)>> {
            let mut points = Vec::new();
            while begin.elapsed().as_secs_f64() < seconds && !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_secs(1));
                let minutes = begin.elapsed().as_secs_f64() / 60.0;
                let kib = Usage::of_process()?.private as f64 / 1024.0;
                points.push((minutes, kib));
                if points.len() % 30 == 0 {
                    let mib = kib / 1024.0;
                    println!("{minutes:5.1} min: {}, private memory {mib:.1} MiB", progress());
                }
                look();
            }
            Ok(points)
        };
        let points = watch();
        stop.store(true, Ordering::Relaxed);
        join(threads)?;
        points
    })
}

/// The slope of memory after the first fifth, which is warm-up: caches of shapes and primitives, the allocators' arenas.
pub fn slope(points: &[(f64, f64)]) -> Result<Trend> {
    let trend = Trend::of(&points[points.len() / 5..])
        .with_context(|| format!("{} seconds are too few for a trend", points.len()))?;
    println!(
        "slope of private memory after warm-up: {:.1} KiB/min, standard error {:.1} KiB/min",
        trend.slope, trend.error
    );
    Ok(trend)
}

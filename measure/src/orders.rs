//! The orders of a contender that is written in Rust. benches/python/contender.py reads the same lines.

use std::io::{BufRead, Write};
use std::thread;
use std::time::Duration;

use crate::callers::Callers;
use crate::contender::Order;
use anyhow::{Context, Result};

/// Says that the contender is ready, and carries out the orders of standard input until it ends.
///
/// An order is carried out by as many threads as it says, numbered from 0. They stay between orders, as those of a server
/// do: what the first call of a thread costs is paid once. `prepare` runs on each thread for each order, outside of the
/// measured time, and returns the function to call. That gets the number of the call, and returns whether its result was
/// right.
///
/// # Errors
///
/// The first error of `prepare` or of a call; an order that cannot be read; an answer that nobody takes.
pub fn answer<C>(prepare: impl Fn(&Order, usize) -> Result<C> + Sync) -> Result<()>
where
    C: FnMut(usize) -> Result<bool>,
{
    let mut output = std::io::stdout().lock();
    writeln!(output, "{{\"ready\": {}}}", std::process::id())?;
    output.flush()?;
    thread::scope(|scope| {
        let mut callers = Callers::new();
        for line in std::io::stdin().lock().lines() {
            let order: Order = serde_json::from_str(&line?).context("reading an order")?;
            let (threads, duration) = (order.threads, Duration::from_secs_f64(order.seconds));
            let mut samples = callers.call(scope, &prepare, order, threads, duration)?;
            samples.processes = vec![std::process::id()];
            serde_json::to_writer(&mut output, &samples)?;
            output.write_all(b"\n")?;
            output.flush()?;
        }
        Ok(())
    })
}

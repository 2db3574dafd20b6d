//! The orders of a contender that is written in Rust. benches/python/contender.py reads the same lines.

use std::io::{BufRead, Write};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::callers::Callers;
use crate::contender::Order;
use crate::samples::Samples;

/// Says that the contender is ready, and carries out the orders of standard input until it ends.
///
/// # Errors
///
/// The first error of `carry_out`; an order that cannot be read; an answer that cannot be delivered.
pub fn answer(mut carry_out: impl FnMut(Order) -> Result<Samples>) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{{\"ready\": {}}}", std::process::id())?;
    output.flush()?;
    for line in std::io::stdin().lock().lines() {
        let samples = carry_out(serde_json::from_str(&line?).context("reading an order")?)?;
        writeln!(output, "{}", serde_json::to_string(&samples)?)?;
        output.flush()?;
    }
    Ok(())
}

/// [`answer`] for a contender that has nothing but calls to do.
///
/// An order is carried out by as many threads as it says, numbered from 0. They stay between orders, as those of a server
/// do: a thread pays the cost of its first call only once. `prepare` gets the model's name. It runs on each thread for each order,
/// outside of the measured time, and returns the function to call. That gets the number of the call, and returns whether its
/// result was right.
///
/// # Errors
///
/// As those of [`answer`]; the first error of `prepare` or of a call; an order of another kind.
pub fn answer_calls<C>(prepare: impl Fn(&String, usize) -> Result<C> + Sync) -> Result<()>
where
    C: FnMut(usize) -> Result<bool>,
{
    thread::scope(|scope| {
        let mut callers = Callers::new();
        answer(|order| {
            let Order::Call { model, seconds, threads, .. } = order else { return refuse(&order) };
            let duration = Duration::from_secs_f64(seconds);
            let mut samples = callers.call(scope, &prepare, model, threads, duration)?;
            samples.processes = vec![std::process::id()];
            Ok(samples)
        })
    })
}

/// The answer to an order that the contender does not know.
///
/// # Errors
///
/// Always.
pub fn refuse(order: &Order) -> Result<Samples> {
    bail!("this contender does not know the order {order:?}")
}

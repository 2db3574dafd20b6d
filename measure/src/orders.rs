//! The orders of a contender that is written in Rust. benches/python/contender.py reads the same lines.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::{self, Scope};
use std::time::Duration;

use crate::contender::Order;
use crate::drive::one_thread;
use crate::effort::Own;
use crate::samples::Samples;
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
        let mut callers = Vec::new();
        for line in std::io::stdin().lock().lines() {
            let order: Order = serde_json::from_str(&line?).context("reading an order")?;
            while callers.len() < order.threads {
                callers.push(Caller::start(scope, callers.len(), &prepare));
            }
            let mut samples = carry_out(&Arc::new(order), &callers)?;
            samples.processes = vec![std::process::id()];
            serde_json::to_writer(&mut output, &samples)?;
            output.write_all(b"\n")?;
            output.flush()?;
        }
        Ok(())
    })
}

fn carry_out(order: &Arc<Order>, callers: &[Caller]) -> Result<Samples> {
    let callers = &callers[..order.threads];
    let start = Arc::new(Barrier::new(callers.len()));
    let own = Own::now();
    for caller in callers {
        caller.orders.send((order.clone(), start.clone())).context("a caller has ended")?;
    }
    let mut total = Samples::default();
    for caller in callers {
        total.merge(caller.samples.recv().context("a call panicked")??);
    }
    // With those of the preparation, which are few.
    total.effort = own.since();
    Ok(total)
}

/// A thread that calls when it is told to. It ends when this is dropped.
struct Caller {
    orders: Sender<(Arc<Order>, Arc<Barrier>)>,
    samples: Receiver<Result<Samples>>,
}

impl Caller {
    fn start<'scope, C>(
        scope: &'scope Scope<'scope, '_>,
        number: usize,
        prepare: &'scope (impl Fn(&Order, usize) -> Result<C> + Sync),
    ) -> Self
    where
        C: FnMut(usize) -> Result<bool>,
    {
        let (orders, received) = channel::<(Arc<Order>, Arc<Barrier>)>();
        let (answers, samples) = channel();
        scope.spawn(move || {
            for (order, start) in received {
                let prepared = prepare(&order, number);
                start.wait();
                let duration = Duration::from_secs_f64(order.seconds);
                let part = prepared.and_then(|call| one_thread(duration, call));
                if answers.send(part).is_err() {
                    return;
                }
            }
        });
        Self { orders, samples }
    }
}

//! The orders of a contender that is a pool. benches/python/contender.py reads the same lines.

use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use hydrozoa_measure::contender::Order;
use hydrozoa_measure::samples::Samples;

/// Says that the pool is ready, and carries out the orders of standard input until it ends.
pub fn answer(mut carry_out: impl FnMut(&Order) -> Result<Samples>) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{{\"ready\": {}}}", std::process::id())?;
    output.flush()?;
    for line in std::io::stdin().lock().lines() {
        let order: Order = serde_json::from_str(&line?).context("reading an order")?;
        let mut samples = carry_out(&order)?;
        samples.processes = vec![std::process::id()];
        serde_json::to_writer(&mut output, &samples)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

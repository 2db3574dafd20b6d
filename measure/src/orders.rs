//! The orders of a contender that is written in Rust. benches/python/contender.py reads the same lines.

use std::io::{BufRead, Write};

use crate::contender::Order;
use crate::samples::Samples;
use anyhow::{Context, Result};

/// Says that the contender is ready, and carries out the orders of standard input until it ends.
///
/// # Errors
///
/// What `carry_out` returns; an order that cannot be read; an answer that nobody takes.
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

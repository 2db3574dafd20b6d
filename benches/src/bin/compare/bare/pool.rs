//! Our contender: a pool that grows.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use anyhow::Result;
use hydrozoa::{Interpreter, Pool};

/// `WORK` in benches/python/bare.py.
const WORK: &str = "import threading\nassert sum(range(100)) == 4950";

/// Calls of each worker before it is settled, and after.
const CALLS: usize = 10;

#[derive(clap::Args)]
pub struct Options {
    /// The CPython
    #[arg(long)]
    python: PathBuf,
    /// Settle each interpreter in this directory
    #[arg(long)]
    settle_in: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let mut pool = None;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{{\"ready\": {}}}", std::process::id())?;
    output.flush()?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let pool = match &pool {
            None => pool.insert(Pool::builder().interpreters(1).python(&options.python).build()?),
            Some(pool) => {
                pool.resize(pool.interpreters().len() + 1)?;
                pool
            }
        };
        if let Some(interpreter) = pool.interpreters().last() {
            work(interpreter, options)?;
        }
        writeln!(output, "{{\"processes\": [{}]}}", std::process::id())?;
        output.flush()?;
    }
    Ok(())
}

fn work(interpreter: &Interpreter, options: &Options) -> Result<()> {
    let call = || interpreter.session().run(WORK, "work.py").map(drop);
    call()?;
    if let Some(directory) = &options.settle_in {
        for _ in 0..CALLS {
            call()?;
        }
        interpreter.settle(directory)?;
        for _ in 0..CALLS {
            call()?;
        }
    }
    Ok(())
}

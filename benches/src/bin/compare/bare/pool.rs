//! Our contender: a pool that grows.

use std::path::PathBuf;

use anyhow::Result;
use hydrozoa::{Interpreter, Pool};
use hydrozoa_measure::contender::Order;
use hydrozoa_measure::orders;
use hydrozoa_measure::samples::Samples;
use serde::{Deserialize, Serialize};

/// `WORK` in benches/python/bare.py.
const WORK: &str = "import threading\nassert sum(range(100)) == 4950";

/// Calls of each worker before it is settled, and after.
const CALLS: usize = 10;

/// A pool that begins without an interpreter.
#[derive(Serialize, Deserialize)]
pub struct BarePool {
    /// The CPython.
    pub python: PathBuf,
    /// Settle each interpreter in this directory.
    pub settle_in: Option<PathBuf>,
}

impl BarePool {
    pub fn run(&self) -> Result<()> {
        let mut pool = None;
        orders::answer(|order| {
            let Order::Grow { workers } = order else { return orders::refuse(&order) };
            for _ in 0..workers {
                let builder = Pool::builder().interpreters(1).python(&self.python);
                let pool = match &pool {
                    None => pool.insert(builder.build()?),
                    Some(pool) => {
                        pool.resize(pool.interpreters().len() + 1)?;
                        pool
                    }
                };
                if let Some(interpreter) = pool.interpreters().last() {
                    self.work(interpreter)?;
                }
            }
            Ok(Samples { processes: vec![std::process::id()], ..Samples::default() })
        })
    }

    fn work(&self, interpreter: &Interpreter) -> Result<()> {
        let call = || interpreter.session().run(WORK, "work.py").map(drop);
        call()?;
        if let Some(directory) = &self.settle_in {
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
}

//! Failures after which interpreters must work as before.

use anyhow::{Context, Result, ensure};
use hydrozoa::{Pool, Session};

use crate::place;

/// Makes two interpreters and calls `fail` with a session on the first. Afterwards both must work as before.
///
/// # Errors
///
/// That of `fail`, or an interpreter does not work as before.
pub fn with_survivors(fail: impl FnOnce(&Pool, &Session) -> Result<()>) -> Result<()> {
    let pool = Pool::builder().interpreters(2).venv(place::venv()?).build()?;
    let session = pool.acquire_on(0)?;
    fail(&pool, &session)?;
    for interpreter in pool.interpreters() {
        let sum: i64 = interpreter.session().eval("sum(range(101))")?.extract()?;
        ensure!(sum == 5050, "{} computes {sum}", interpreter.name());
        interpreter.session().import("decimal").context("an import after the failure")?;
    }
    Ok(())
}

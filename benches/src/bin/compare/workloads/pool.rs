//! Our contender.

use anyhow::{Context, Result, ensure};
use hydrozoa::{Handle, Pool};
use hydrozoa_measure::orders;
use serde::{Deserialize, Serialize};

use super::work::{Expected, Work, WorkFiles};

/// A pool whose interpreters each have made the work ready.
#[derive(Serialize, Deserialize)]
pub struct WorkPool {
    pub files: WorkFiles,
    pub work: Work,
    pub interpreters: usize,
}

impl WorkPool {
    pub fn run(&self) -> Result<()> {
        let WorkFiles { venv, scripts, folder } = &self.files;
        let pool =
            Pool::builder().interpreters(self.interpreters).venv(venv).path(scripts).build()?;
        let expected = Expected::read(folder, self.work)?;
        let mut calls = Vec::new();
        for interpreter in pool.interpreters().iter() {
            let session = interpreter.session();
            let module = session.import(&format!("workloads.{}", self.work.name()))?;
            let folder = folder.to_str().context("a folder in UTF-8")?;
            let call = module.call_method("make", (folder,))?;
            let digest: Vec<u8> = call.call((0,))?.extract()?;
            ensure!(expected.is_right(0, &digest), "the result differs from plain python's");
            calls.push(call.keep());
        }
        orders::answer_calls(|_, thread| {
            let (call, expected) = (&calls[thread % calls.len()], &expected);
            Ok(move |index| Ok(one(call, expected, index)?))
        })
    }
}

/// A call as a server makes it, with a session of its own. Returns whether the result is right.
fn one(call: &Handle, expected: &Expected, index: usize) -> hydrozoa::Result<bool> {
    let session = call.session()?;
    let digest: Vec<u8> = call.attach(&session)?.call((expected.input(index),))?.extract()?;
    Ok(expected.is_right(index, &digest))
}

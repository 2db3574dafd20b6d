//! Our contender: a pool whose interpreters each have made the work ready.

use anyhow::{Context, Result, ensure};
use hydrozoa::{Handle, Pool};
use hydrozoa_measure::orders;

use super::work::{Expected, Place, Work};

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// The piece of work
    #[arg(long)]
    work: Work,
    /// How many interpreters
    #[arg(long)]
    interpreters: usize,
}

pub fn run(options: &Options) -> Result<()> {
    let Place { venv, scripts, folder } = &options.place;
    let pool =
        Pool::builder().interpreters(options.interpreters).venv(venv).path(scripts).build()?;
    let expected = Expected::read(folder, options.work)?;
    let mut calls = Vec::new();
    for interpreter in pool.interpreters().iter() {
        let session = interpreter.session();
        let module = session.import(&format!("workloads.{}", options.work.name()))?;
        let call = module.call_method("make", (folder.to_str().context("a folder in UTF-8")?,))?;
        let digest: Vec<u8> = call.call((0,))?.extract()?;
        ensure!(expected.is_right(0, &digest), "the result differs from plain python's");
        calls.push(call.keep());
    }
    orders::answer(|_, thread| {
        let (call, expected) = (&calls[thread % calls.len()], &expected);
        Ok(move |index| Ok(one(call, expected, index)?))
    })
}

/// A call as a server makes it, with a session of its own. Returns whether the result is right.
fn one(call: &Handle, expected: &Expected, index: usize) -> hydrozoa::Result<bool> {
    let session = call.session()?;
    let digest: Vec<u8> = call.attach(&session)?.call((expected.input(index),))?.extract()?;
    Ok(expected.is_right(index, &digest))
}

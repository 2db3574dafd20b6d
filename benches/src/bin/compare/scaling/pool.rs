//! Our contender.

use anyhow::{Context, Result, ensure};
use hydrozoa::{Handle, Pool};
use hydrozoa_measure::orders;
use hydrozoa_measure::package::{EXAMPLE, MODEL};
use serde::{Deserialize, Serialize};

use super::Packaged;

/// A pool whose interpreters each have the packaged model.
#[derive(Serialize, Deserialize)]
pub struct PackagedPool {
    pub packaged: Packaged,
    pub interpreters: usize,
}

impl PackagedPool {
    pub fn run(&self) -> Result<()> {
        let Packaged { package, expected, catalogue, venv, scripts, .. } = &self.packaged;
        let pool = Pool::builder()
            .interpreters(self.interpreters)
            .venv(venv)
            .path(scripts)
            .path(catalogue)
            .build()?;
        let package = pool.load_package(package)?;
        let (model, example) =
            (package.load_pickle(MODEL.0, MODEL.1)?, package.load_pickle(EXAMPLE.0, EXAMPLE.1)?);
        let expected = expected.to_str().context("a path in UTF-8")?;
        let mut calls = Vec::new();
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            let objects = (model.to_object(&session)?, example.to_object(&session)?, expected);
            let call = session.import("scaling")?.call_method("caller", objects)?;
            ensure!(call.call(())?.extract::<bool>()?, "the result differs from plain python's");
            calls.push(call.keep());
        }
        orders::answer_calls(|_, thread| {
            let call = &calls[thread % calls.len()];
            Ok(move |_| Ok(one(call)?))
        })
    }
}

/// A call as a server makes it, with a session of its own. Returns whether the result is right.
fn one(call: &Handle) -> hydrozoa::Result<bool> {
    let session = call.session()?;
    call.attach(&session)?.call(())?.extract()
}

//! A pool that answers orders.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use hydrozoa::package::Package;
use hydrozoa::{Movable, Pool, Tensor};
use hydrozoa_measure::models::{Cases, manifest};
use hydrozoa_measure::orders;
use hydrozoa_measure::package::MODEL;

use crate::Place;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// How many interpreters
    #[arg(long)]
    interpreters: usize,
}

struct Model {
    /// Holds the archive's pages for as long as the model is used.
    _package: Package,
    movable: Movable,
    cases: Cases,
}

pub fn run(options: &Options) -> Result<()> {
    let pool =
        Pool::builder().interpreters(options.interpreters).venv(&options.place.venv).build()?;
    let mut models = HashMap::new();
    for entry in manifest(&options.place.manifest)? {
        let package = pool.load_package(&entry.package)?;
        let movable = package.load_pickle(MODEL.0, MODEL.1)?;
        let cases = entry.cases()?;
        // Every interpreter loads every model before the measurement.
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            let output: Tensor = movable.to_object(&session)?.call((cases.input(0),))?.extract()?;
            ensure!(
                cases.is_right(0, &output)?,
                "{}: the output differs from plain python's",
                entry.name
            );
        }
        models.insert(entry.name, Model { _package: package, movable, cases });
    }
    orders::answer(|order, _| {
        let model =
            models.get(&order.model).with_context(|| format!("no model {}", order.model))?;
        Ok(|index| {
            let output: Tensor = model.movable.call((model.cases.input(index),))?.extract()?;
            Ok(model.cases.is_right(index, &output)?)
        })
    })
}

//! The exported models, and our contender that calls them: a pool.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa::package::Package;
use hydrozoa::{Movable, Pool, Tensor};
use hydrozoa_measure::contender::plain_python;
use hydrozoa_measure::models::{Cases, ExportedModel, manifest};
use hydrozoa_measure::orders;
use hydrozoa_measure::package::MODEL;
use serde::{Deserialize, Serialize};

/// The models, and the packages that they need.
#[derive(clap::Args, Clone, Serialize, Deserialize)]
pub struct Exported {
    /// manifest.json of the exported models
    #[arg(long)]
    pub manifest: PathBuf,
    /// The virtual environment with torch
    #[arg(long)]
    pub venv: PathBuf,
}

impl Exported {
    /// A rival, which reads the manifest.
    pub fn rival(&self, script: &Path) -> Command {
        let mut command = plain_python(&self.venv.join("bin/python"), script);
        command.arg(&self.manifest);
        command
    }

    pub fn model(&self, name: &str) -> Result<ExportedModel> {
        let all = manifest(&self.manifest)?;
        let found = all.into_iter().find(|entry| entry.name == name);
        found.with_context(|| format!("the manifest has no {name}"))
    }
}

/// A pool whose interpreters have all models.
#[derive(Serialize, Deserialize)]
pub struct ModelsPool {
    pub exported: Exported,
    pub interpreters: usize,
}

struct Model {
    /// Holds the archive's pages for as long as the model is used.
    _package: Package,
    movable: Movable,
    cases: Cases,
}

impl ModelsPool {
    pub fn run(&self) -> Result<()> {
        let pool =
            Pool::builder().interpreters(self.interpreters).venv(&self.exported.venv).build()?;
        let mut models = HashMap::new();
        for entry in manifest(&self.exported.manifest)? {
            let package = pool.load_package(&entry.package)?;
            let movable = package.load_pickle(MODEL.0, MODEL.1)?;
            let cases = entry.cases()?;
            // Every interpreter loads every model before the measurement.
            for interpreter in pool.interpreters() {
                let session = interpreter.session();
                let output: Tensor =
                    movable.to_object(&session)?.call((cases.input(0),))?.extract()?;
                ensure!(
                    cases.is_right(0, &output)?,
                    "{}: the output differs from plain python's",
                    entry.name
                );
            }
            models.insert(entry.name, Model { _package: package, movable, cases });
        }
        orders::answer_calls(|name, _| {
            let model = models.get(name).with_context(|| format!("no model {name}"))?;
            Ok(|index| {
                let output: Tensor = model.movable.call((model.cases.input(index),))?.extract()?;
                Ok(model.cases.is_right(index, &output)?)
            })
        })
    }
}

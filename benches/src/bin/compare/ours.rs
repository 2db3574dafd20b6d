//! Hydrozoa's contenders: this program, started once more with a description of what it is to be.

use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{bare, density, exported, gpu, scaling, weights, workloads};

/// A contender, as the argument of `compare contender`.
#[derive(Serialize, Deserialize)]
pub enum Ours {
    Models(exported::ModelsPool),
    Growing(density::GrowingPool),
    Bare(bare::BarePool),
    Work(workloads::WorkPool),
    Packaged(scaling::PackagedPool),
    Gpu(gpu::GpuPool),
    Weights(weights::WeightsPool),
}

impl Ours {
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.arg("contender").arg(serde_json::to_string(self)?);
        Ok(command)
    }

    /// Answers orders until standard input ends.
    pub fn run(description: &str) -> Result<()> {
        match serde_json::from_str(description).context("reading the contender's description")? {
            Self::Models(pool) => pool.run(),
            Self::Growing(pool) => pool.run(),
            Self::Bare(pool) => pool.run(),
            Self::Work(pool) => pool.run(),
            Self::Packaged(pool) => pool.run(),
            Self::Gpu(pool) => pool.run(),
            Self::Weights(pool) => pool.run(),
        }
    }
}

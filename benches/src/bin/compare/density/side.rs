//! One side of a comparison: a contender in a group of its own, as its owner sees it.

use anyhow::{Error, Result};
use hydrozoa_measure::contender::{Contender, Order};
use hydrozoa_measure::group::{Footprint, Group};
use hydrozoa_measure::samples::Samples;

use super::kind::{Kind, Plan};

/// Workers that have started.
pub struct Grown {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// Has a contender start so many workers at once, and waits for the first output of each.
pub fn grow(contender: &mut Contender, workers: usize) -> Result<Grown> {
    let (took, samples) = contender.grow(workers)?;
    Ok(Grown { seconds: took.as_secs_f64(), cpu_seconds: samples.effort.cpu_us as f64 / 1e6 })
}

/// Fields are dropped in this order: the group can be removed when its processes have ended.
pub struct Side {
    contender: Contender,
    group: Group,
}

impl Side {
    pub fn start(plan: &Plan, kind: Kind, limit: Option<u64>) -> Result<Self> {
        let group = Group::new(limit)?;
        let command = &mut group.command(&plan.command(kind)?);
        let contender = Contender::ready(kind.label(), command)?;
        Ok(Self { contender, group })
    }

    /// Starts a worker and waits for its first output.
    pub fn grow(&mut self) -> Result<Grown> {
        grow(&mut self.contender, 1)
    }

    /// Has callers call the workers in turn.
    pub fn serve(&mut self, seconds: f64, threads: usize) -> Result<Samples> {
        self.contender.ask(&Order::Call { model: String::new(), seconds, threads, processes: 0 })
    }

    /// Calls each worker once, and once more after everything was taken that the kernel takes from those who have been idle
    /// for long. Nothing if this kernel cannot be asked for that.
    pub fn idle(&mut self) -> Result<Option<[Samples; 2]>> {
        let warm = self.contender.ask(&Order::Each)?;
        if !self.group.reclaim()? {
            return Ok(None);
        }
        Ok(Some([warm, self.contender.ask(&Order::Each)?]))
    }

    pub fn footprint(&self) -> Result<Footprint> {
        self.group.footprint()
    }

    /// Why the contender has ended, in words.
    pub fn end(&self, error: &Error) -> String {
        match self.group.kills() {
            Ok(0) | Err(_) => format!("{error:#}"),
            Ok(_) => "the kernel killed it for want of memory".to_owned(),
        }
    }
}

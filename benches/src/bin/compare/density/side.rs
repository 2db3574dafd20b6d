//! One side of a comparison: a contender in a group of its own, as its owner sees it.

use std::time::Instant;

use anyhow::{Context, Error, Result};
use hydrozoa_measure::contender::Contender;
use hydrozoa_measure::samples::Samples;
use serde::{Deserialize, Serialize};

use super::group::{Footprint, Group};
use super::kind::{Kind, Plan};

/// An order to a contender that grows. benches/python/density.py reads the same lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// So many workers more, which start at once, each up to its first right output.
    Grow { workers: usize },
    /// Call the workers in turn.
    Serve { seconds: f64, callers: usize },
    /// Call each worker once, one after the other.
    Each,
}

/// The answer to [`Order::Grow`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// Processor time until the first output of each.
    pub cpu_seconds: f64,
}

/// Workers that have started.
pub struct Grown {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// Has a contender start so many workers at once, and waits for the first output of each.
pub fn grow(contender: &mut Contender, workers: usize) -> Result<Grown> {
    let begin = Instant::now();
    let answer = contender.ask(&serde_json::to_string(&Order::Grow { workers })?)?;
    let seconds = begin.elapsed().as_secs_f64();
    let started: Started = serde_json::from_str(&answer).context(answer)?;
    Ok(Grown { seconds, cpu_seconds: started.cpu_seconds })
}

/// Fields are dropped in this order: the group can be removed when its processes have ended.
pub struct Side {
    contender: Contender,
    group: Group,
}

impl Side {
    pub fn start(plan: &Plan, kind: Kind, limit: Option<u64>) -> Result<Self> {
        let group = Group::new(limit)?;
        let mut contender =
            Contender::start(kind.label(), &mut group.command(&plan.command(kind)))?;
        contender.wait_until_ready()?;
        Ok(Self { contender, group })
    }

    /// Starts a worker and waits for its first output.
    pub fn grow(&mut self) -> Result<Grown> {
        grow(&mut self.contender, 1)
    }

    pub fn serve(&mut self, seconds: f64, callers: usize) -> Result<Samples> {
        self.samples(&Order::Serve { seconds, callers })
    }

    /// Calls each worker once, and once more after everything was taken that the kernel takes from those who have been idle
    /// for long. Nothing if this kernel cannot be asked for that.
    pub fn idle(&mut self) -> Result<Option<[Samples; 2]>> {
        let warm = self.samples(&Order::Each)?;
        if !self.group.reclaim()? {
            return Ok(None);
        }
        Ok(Some([warm, self.samples(&Order::Each)?]))
    }

    fn samples(&mut self, order: &Order) -> Result<Samples> {
        let answer = self.contender.ask(&serde_json::to_string(order)?)?;
        serde_json::from_str(&answer).context(answer)
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

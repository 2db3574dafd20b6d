//! Two ways to do the same work, in turn.

use std::time::Duration;

use anyhow::{Result, ensure};
use hydrozoa_measure::samples::median;

/// The times of both, round by round.
#[derive(Default)]
pub struct Rounds {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Rounds {
    /// Does both `count` times in turn, after one round that does not count.
    pub fn measure(
        count: usize,
        mut ours: impl FnMut() -> Result<Duration>,
        mut theirs: impl FnMut() -> Result<Duration>,
    ) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        for round in 0..=count {
            // The order alternates, so that neither always has the warmer cache.
            let (first, second) = if round % 2 == 0 {
                let first = ours()?;
                (first, theirs()?)
            } else {
                let second = theirs()?;
                (ours()?, second)
            };
            if round > 0 {
                rounds.ours.push(first.as_secs_f64());
                rounds.theirs.push(second.as_secs_f64());
            }
        }
        Ok(rounds)
    }

    /// The median of the rounds' ratios, ours to theirs.
    pub fn ratio(&self) -> f64 {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect();
        median(&ratios)
    }

    /// Median durations in seconds, ours and theirs.
    pub fn medians(&self) -> (f64, f64) {
        (median(&self.ours), median(&self.theirs))
    }

    /// Prints one line, with times in units of `unit` seconds called `name`. Returns an error if the ratio is above
    /// the promised one.
    pub fn report(&self, what: &str, unit: f64, name: &str, promised: f64) -> Result<()> {
        let (ours, theirs) = self.medians();
        let ratio = self.ratio();
        println!(
            "{what}: {:.2} {name}, glibc {:.2} {name}, ratio {ratio:.3} (promised: at most {promised}), \
             medians of {} rounds",
            ours / unit,
            theirs / unit,
            self.ours.len()
        );
        ensure!(ratio <= promised, "{what}: {ratio:.3} times glibc's time, {promised} is promised");
        Ok(())
    }
}

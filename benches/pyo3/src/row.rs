//! One line of the table: the same work in two ways, in turn.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use hydrozoa_measure::samples::median;

/// Makes so many calls and returns their CPU time.
pub type Calls<'a> = Box<dyn Fn(usize) -> Result<Duration> + 'a>;

/// A measurement and its promise.
pub struct Row<'a> {
    /// The work.
    pub work: &'static str,
    /// Our way.
    pub ours: Calls<'a>,
    /// The other side's name.
    pub beside: &'static str,
    /// The other way.
    pub theirs: Calls<'a>,
    /// The largest ratio of our time to the other.
    pub promised: Promised,
}

/// Ratios of our time to the other's.
#[derive(Clone, Copy)]
pub struct Promised {
    /// A larger one breaks the promise.
    pub most: f64,
    /// The goal, not reached yet.
    pub aim: Option<f64>,
}

/// How long a round takes at least.
const ROUND: Duration = Duration::from_millis(10);

/// The result of a row.
pub struct Measured {
    work: &'static str,
    beside: &'static str,
    promised: Promised,
    /// Medians in nanoseconds for each call.
    ours: f64,
    theirs: f64,
    /// The median of the rounds' ratios.
    ratio: f64,
}

impl Row<'_> {
    /// Makes `rounds` rounds of both in turn, after some that do not count.
    pub fn measure(&self, rounds: usize) -> Result<Measured> {
        let calls = self.calls().with_context(|| self.work)?;
        let each = |way: &Calls<'_>| -> Result<f64> {
            Ok(way(calls).with_context(|| self.work)?.as_nanos() as f64 / calls as f64)
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // The order alternates, so that neither always has the warmer cache.
            if round % 2 == 0 {
                ours.push(each(&self.ours)?);
                theirs.push(each(&self.theirs)?);
            } else {
                theirs.push(each(&self.theirs)?);
                ours.push(each(&self.ours)?);
            }
        }
        let ratios: Vec<f64> =
            ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        Ok(Measured {
            work: self.work,
            beside: self.beside,
            promised: self.promised,
            ours: median(&ours),
            theirs: median(&theirs),
            ratio: median(&ratios),
        })
    }

    /// How many calls make a round of both.
    fn calls(&self) -> Result<usize> {
        let mut calls = 16;
        loop {
            let faster = (self.ours)(calls)?.min((self.theirs)(calls)?);
            if faster >= ROUND {
                return Ok(calls);
            }
            calls *= 2;
        }
    }
}

impl Measured {
    /// Whether the promise is kept.
    pub fn is_kept(&self) -> bool {
        self.ratio <= self.promised.most
    }

    /// The titles of the columns.
    pub fn header() -> String {
        format!(
            "{:<46} {:>9} {:>9}  {:<18} {:>6}  {}",
            "", "ours, ns", "other, ns", "other", "ratio", "promised"
        )
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { work, beside, promised, ours, theirs, ratio } = self;
        let aim = promised.aim.map(|aim| format!(", aim {aim:.1}")).unwrap_or_default();
        let promised = format!("{:.1}{aim}", promised.most);
        let broken = if self.is_kept() { "" } else { "  BROKEN" };
        write!(
            formatter,
            "{work:<46} {ours:>9.1} {theirs:>9.1}  {beside:<18} {ratio:>6.2}  {promised}{broken}"
        )
    }
}

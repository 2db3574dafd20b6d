//! The contenders of a comparison, and the lines of its table that they are measured for.

use std::process::Command;

use anyhow::Result;
use hydrozoa_measure::contender::{Contender, Order};
use hydrozoa_measure::samples::Samples;

/// One line of the table: the contenders that work at the same time, and the number of threads of each.
#[derive(Debug, Clone)]
pub struct Line {
    /// The line's label in the table.
    pub label: String,
    /// What is counted, for grouping: `interpreters` (in one process), `threads` (of an interpreter),
    /// `processes`, `process-threads` or `prefork`.
    pub kind: &'static str,
    /// Their number.
    pub count: usize,
    /// Which contenders work at the same time, and with how many threads each.
    pub contenders: Vec<usize>,
    pub threads: usize,
}

/// All contenders and lines.
#[derive(Default)]
pub struct Field {
    contenders: Vec<Contender>,
    lines: Vec<Line>,
}

impl Field {
    /// Starts a contender and waits for it: on few cores, several starts at the same time would take as long.
    pub fn add(&mut self, name: &str, command: &mut Command) -> Result<usize> {
        eprintln!("  {name}");
        let mut contender = Contender::start(name, command)?;
        contender.wait_until_ready()?;
        self.contenders.push(contender);
        Ok(self.contenders.len() - 1)
    }

    /// Adds a line. `threads` is the number of threads of each contender.
    pub fn line(
        &mut self,
        label: impl Into<String>,
        kind: &'static str,
        count: usize,
        contenders: Vec<usize>,
        threads: usize,
    ) {
        self.lines.push(Line { label: label.into(), kind, count, contenders, threads });
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Has the line's contenders call a model at the same time.
    pub fn measure(&mut self, line: &Line, model: &str, seconds: f64) -> Result<Samples> {
        let order = Order {
            model: model.to_owned(),
            seconds,
            threads: line.threads,
            processes: line.count,
        };
        for contender in &line.contenders {
            self.contenders[*contender].send(&order)?;
        }
        let mut total = Samples::default();
        for contender in &line.contenders {
            total.merge(self.contenders[*contender].result()?);
        }
        Ok(total)
    }
}

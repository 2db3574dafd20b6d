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
    /// The counted unit, for grouping: `interpreters` (in one process), `threads` (of an interpreter),
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
        self.contenders.push(Contender::ready(name, command)?);
        Ok(self.contenders.len() - 1)
    }

    /// The rivals with one worker in each process: so many processes, and a prefork server with as many children.
    pub fn add_processes(
        &mut self,
        count: usize,
        python: impl Fn() -> Command,
    ) -> Result<(Vec<usize>, usize)> {
        let processes = (0..count)
            .map(|number| self.add(&format!("python process {number}"), &mut python()))
            .collect::<Result<_>>()?;
        let mut prefork = python();
        let prefork =
            self.add("prefork server", prefork.args(["--prefork", &count.to_string()]))?;
        Ok((processes, prefork))
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
        let contenders =
            self.contenders.iter_mut().enumerate().filter(|(at, _)| line.contenders.contains(at));
        call(contenders.map(|(_, contender)| contender), line, model, seconds)
    }
}

/// Has a line's contenders call a model at the same time.
pub fn call<'a>(
    contenders: impl Iterator<Item = &'a mut Contender>,
    line: &Line,
    model: &str,
    seconds: f64,
) -> Result<Samples> {
    let (model, threads, processes) = (model.to_owned(), line.threads, line.count);
    let order = Order::Call { model, seconds, threads, processes };
    let mut called: Vec<_> = contenders.collect();
    called.iter_mut().try_for_each(|contender| contender.send(&order))?;
    let mut total = Samples::default();
    for contender in called {
        total.merge(contender.result()?);
    }
    Ok(total)
}

//! `cargo xtask lab web`: `hydrozoa run` beside other servers of web applications, asked by the same client.

mod application;
mod contender;
mod database;
mod installed;
mod limits;
mod memory;
mod running;
mod speed;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{measurements, workspace};

use application::Application;
use contender::Contender;
use installed::Installed;

/// A part of the comparison.
#[derive(clap::Subcommand)]
pub enum Part {
    /// The memory of a further worker, at rest and under a light load, and the promises about it
    Memory(memory::Arguments),
    /// How many workers serve an application within a limit of memory
    ///
    /// It needs root, for control groups.
    Limits(limits::Arguments),
    /// Requests a second and their 99th percentile by two workers on two processors, contenders in turn
    Speed(speed::Arguments),
}

/// The servers and applications that are compared, and the file of the measurements.
#[derive(clap::Args)]
struct Selection {
    /// Only these applications
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    applications: Vec<Application>,
    /// Only these servers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    contenders: Vec<Contender>,
    /// Write every measurement to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Add to the file's measurements
    #[arg(long)]
    add: bool,
    /// Take `hydrozoa` and `pages` from this folder instead of building them
    #[arg(long, value_name = "DIR")]
    built: Option<PathBuf>,
    /// Measure nothing: read the measurements of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["applications", "contenders", "csv", "add", "built"])]
    from: Option<PathBuf>,
}

pub fn run(part: &Part) -> Result<()> {
    match part {
        Part::Memory(arguments) => memory::run(arguments),
        Part::Limits(arguments) => limits::run(arguments),
        Part::Speed(arguments) => speed::run(arguments),
    }
}

impl Selection {
    /// The rows of an earlier run, or those that `measure` adds.
    fn rows<Row: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        measure: impl FnOnce(&Installed, &[Pair], &mut Rows<Row>) -> Result<()>,
    ) -> Result<Vec<Row>> {
        if let Some(path) = &self.from {
            return measurements::read(path);
        }
        let path = match &self.csv {
            Some(path) => path.clone(),
            None => workspace::target()?.join(format!("web-{name}.csv")),
        };
        let rows = if self.add && path.exists() { measurements::read(&path)? } else { Vec::new() };
        let mut rows = Rows { rows, path };
        let applications = self.applications();
        let installed = Installed::install(&applications, self.built.as_deref())?;
        measure(&installed, &self.pairs(&applications), &mut rows)?;
        eprintln!("the measurements are in {}", rows.path.display());
        Ok(rows.rows)
    }

    fn applications(&self) -> Vec<Application> {
        match &self.applications[..] {
            [] => Application::ALL.to_vec(),
            some => some.to_vec(),
        }
    }

    /// Each application with the servers that can serve it.
    fn pairs(&self, applications: &[Application]) -> Vec<Pair> {
        let contenders = |application: &Application| {
            let wanted = match &self.contenders[..] {
                [] => &Contender::ALL,
                some => some,
            };
            let serves = |one: &Contender| one.serves(application.interface());
            wanted.iter().copied().filter(serves).collect()
        };
        applications.iter().map(|one| (*one, contenders(one))).collect()
    }
}

/// An application and the servers that are compared with it.
type Pair = (Application, Vec<Contender>);

/// Measurements, which are written to their file whenever there are more, so that an interrupted run leaves something.
struct Rows<Row> {
    rows: Vec<Row>,
    path: PathBuf,
}

impl<Row: Serialize> Rows<Row> {
    /// Adds one.
    fn push(&mut self, row: Row) -> Result<()> {
        self.rows.push(row);
        measurements::write(&self.path, &self.rows)
    }

    /// Adds one in the place of those of an earlier run that are the same.
    fn replace(&mut self, row: Row, is_same: fn(&Row, &Row) -> bool) -> Result<()> {
        self.rows.retain(|other| !is_same(&row, other));
        self.push(row)
    }
}

/// The names in a column, each once, in the order of the rows.
fn names<'r, Row>(rows: &'r [Row], name: impl Fn(&'r Row) -> &'r str) -> Vec<&'r str> {
    let mut found = Vec::new();
    for name in rows.iter().map(name) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_compared_where_they_can_serve() {
        let selection = Selection {
            applications: vec![Application::Django, Application::Torch],
            contenders: vec![Contender::Hydrozoa, Contender::Gunicorn],
            csv: None,
            add: false,
            built: None,
            from: None,
        };
        let pairs = selection.pairs(&selection.applications());
        assert_eq!(
            pairs,
            [
                (Application::Django, vec![Contender::Hydrozoa, Contender::Gunicorn]),
                (Application::Torch, vec![Contender::Hydrozoa])
            ]
        );
    }

    #[test]
    fn names_are_those_of_the_rows_in_their_order() {
        assert_eq!(names(&["b", "a", "b"], |name| name), ["b", "a"]);
    }
}

//! The rows of tests/faults/faults.txt.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// A crash that people have met.
#[derive(Debug)]
pub struct Row {
    /// The name of its file, without the ending.
    pub work: String,
    /// The packages that are installed for it; none for CPython's own.
    pub packages: Vec<String>,
    /// Where it was reported: OWNER/REPOSITORY#NUMBER.
    pub thread: String,
    /// The signal that plain python dies by.
    pub signal: String,
    /// The outcome in an interpreter that contains its crashes.
    pub outcome: Outcome,
}

/// The outcome in an interpreter that contains its crashes.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Contained,
    /// The code does not crash there.
    GoesOn,
    /// The process dies, and the report's reason contains these words.
    Refused(String),
}

impl Row {
    /// The file of the code.
    pub fn file(&self) -> PathBuf {
        folder().join("work").join(format!("{}.py", self.work))
    }
}

fn folder() -> PathBuf {
    workspace::root().join("tests/faults")
}

/// All rows, in the order of the file.
pub fn rows() -> Result<Vec<Row>> {
    let path = folder().join("faults.txt");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| row(line).with_context(|| format!("{}: {line}", path.display()))).collect()
}

fn row(line: &str) -> Result<Row> {
    // Two spaces or more part columns.
    let columns: Vec<&str> =
        line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    let [work, packages, thread, signal, outcome] = columns[..] else {
        bail!("a row has a name, packages, a thread, a signal and an outcome");
    };
    let packages = packages.split_whitespace().filter(|package| *package != "-");
    let packages: Vec<String> = packages.map(str::to_owned).collect();
    ensure!(packages.iter().all(|package| package.contains("==")), "packages have releases");
    ensure!(thread.contains('/') && thread.contains('#'), "a thread is OWNER/REPOSITORY#NUMBER");
    ensure!(signal.starts_with("SIG"), "a signal has its name");
    Ok(Row {
        work: work.to_owned(),
        packages,
        thread: thread.to_owned(),
        signal: signal.to_owned(),
        outcome: match outcome {
            "contained" => Outcome::Contained,
            "goes on" => Outcome::GoesOn,
            words => Outcome::Refused(words.to_owned()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::{Outcome, folder, row, rows};
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_file_and_every_file_a_row() {
        let rows = rows().unwrap();
        let named: BTreeSet<_> = rows.iter().map(|row| row.file()).collect();
        let files = std::fs::read_dir(folder().join("work")).unwrap();
        let files: BTreeSet<_> = files.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(named, files);
        assert!(rows.len() >= 10, "{} rows", rows.len());
    }

    #[test]
    fn a_row_says_all_that_is_needed() {
        let right = row("a  b==1 c==2  d/e#3  SIGSEGV  what this function holds").unwrap();
        assert_eq!(right.packages, ["b==1", "c==2"]);
        assert_eq!(right.outcome, Outcome::Refused("what this function holds".into()));
        for wrong in [
            "a  b==1  d/e#3  SIGSEGV",
            "a  b  d/e#3  SIGSEGV  contained",
            "a  -  d  SIGSEGV  contained",
        ] {
            assert!(row(wrong).is_err(), "{wrong}");
        }
    }
}

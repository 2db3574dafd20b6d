//! The rows of tests/wheels/wheels.txt, tests/areas/areas.txt and tests/areas/gpu.txt.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// A list of pieces of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// The most used wheels.
    Wheels,
    /// Areas of torch.
    Areas,
    /// Areas of torch on a GPU.
    Gpu,
}

impl List {
    /// The name of its folder, and of its command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wheels => "wheels",
            Self::Areas | Self::Gpu => "areas",
        }
    }

    /// The folder of the list, of its pieces of work and of what these have in common.
    pub fn folder(self) -> PathBuf {
        workspace::root().join("tests").join(self.name())
    }

    /// The file of the list.
    pub fn file(self) -> PathBuf {
        self.folder().join(match self {
            Self::Wheels => "wheels.txt",
            Self::Areas => "areas.txt",
            Self::Gpu => "gpu.txt",
        })
    }

    /// The folder of the pieces of work.
    fn work(self) -> PathBuf {
        self.folder().join(if self == Self::Gpu { "gpu" } else { "work" })
    }

    /// All rows, in the order of the file.
    pub fn rows(self) -> Result<Vec<Row>> {
        let path = self.file();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        parse(self, &text).with_context(|| path.display().to_string())
    }
}

/// The program that runs a piece of work of each list.
pub fn driver() -> PathBuf {
    List::Wheels.folder().join("run.py")
}

/// Why a wheel is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ranking {
    /// Its rank among the most downloaded packages.
    Rank(u32),
    /// It has much native state, or failed in an earlier trial.
    More,
}

/// A piece of work, and the packages that it needs.
#[derive(Debug, Clone)]
pub struct Row {
    pub list: List,
    /// The name of its file, without the ending.
    pub work: String,
    /// The packages that pip installs. The first is the one that is tried.
    pub packages: Vec<String>,
    /// Rows with the same name share a virtual environment.
    pub environment: String,
    /// Why it is in the list.
    pub place: Ranking,
}

impl Row {
    /// The file of the piece of work.
    pub fn file(&self) -> PathBuf {
        self.list.work().join(format!("{}.py", self.work))
    }

    /// The calls of the piece of work, described by its file's first line.
    pub fn calls(&self) -> Result<String> {
        let file = self.file();
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("reading {}", file.display()))?;
        let line = text.lines().next().unwrap_or_default();
        let calls = line.strip_prefix("\"\"\"").and_then(|rest| rest.strip_suffix("\"\"\""));
        let calls = calls.with_context(|| {
            format!("{}: its first line must be a docstring in one line", file.display())
        })?;
        Ok(calls.to_owned())
    }
}

fn parse(list: List, text: &str) -> Result<Vec<Row>> {
    let rows: Result<Vec<Row>> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| row(list, line).with_context(|| format!("line {number}: {line}")))
        .collect();
    let rows = rows?;
    ensure!(
        rows.is_sorted_by_key(|row| row.place),
        "the rows are not in the order of their places"
    );
    Ok(rows)
}

fn row(list: List, line: &str) -> Result<Row> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [work, packages @ .., environment, place] = words.as_slice() else {
        anyhow::bail!("a row has a name, packages, an environment and a place");
    };
    ensure!(!packages.is_empty(), "no package is named");
    let place = match *place {
        "more" => Ranking::More,
        rank => Ranking::Rank(rank.parse().context("a place is a rank or `more`")?),
    };
    Ok(Row {
        list,
        work: (*work).to_owned(),
        packages: packages.iter().map(|name| (*name).to_owned()).collect(),
        environment: (*environment).to_owned(),
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_piece_of_work_and_every_piece_of_work_a_row() {
        for list in [List::Wheels, List::Areas, List::Gpu] {
            let rows = list.rows().expect("the list");
            let named: BTreeSet<String> =
                rows.iter().map(|row| format!("{}.py", row.work)).collect();
            let files: BTreeSet<String> = std::fs::read_dir(list.work())
                .expect("a folder")
                .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
                .filter(|name| name.ends_with(".py"))
                .collect();
            assert_eq!(named, files);
            assert_eq!(named.len(), rows.len(), "a row is there twice");
            for row in &rows {
                assert!(!row.calls().expect("a docstring").is_empty());
            }
        }
        let rows = List::Wheels.rows().expect("the list");
        let ranked = rows.iter().filter(|row| row.place != Ranking::More).count();
        assert_eq!(ranked, 60, "the list has the 60 most used wheels");
    }

    #[test]
    fn the_list_of_areas_has_at_least_fifty() {
        let told = |row: &Row| {
            let text = std::fs::read_to_string(row.file()).expect("a piece of work");
            text.matches("tell(\"").count()
        };
        let rows = List::Areas.rows().expect("the list");
        assert!(rows.iter().all(|row| row.packages[0] == "torch"), "areas are of torch");
        // Only areas whose name is a literal count. Those that a loop names are more.
        let areas: usize = rows.iter().map(told).sum();
        assert!(areas >= 50, "{areas} areas");
    }

    #[test]
    fn a_row_that_lacks_its_place_is_named() {
        let error =
            parse(List::Wheels, "# head\na b c 3\nd e f\n").expect_err("the second row is short");
        assert!(format!("{error:#}").contains("line 3: d e f"), "{error:#}");
        assert!(parse(List::Wheels, "a b c more\nd e f 3\n").is_err(), "ranks come first");
    }
}

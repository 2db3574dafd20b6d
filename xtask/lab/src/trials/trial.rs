//! One piece of work: twice in plain python, then in several copies of one process at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::finding::{Finding, Outcome};
use super::list::{self, List, Row};
use crate::time_limit::{self, End};
use crate::venv;

/// The part of a time limit after which the driver prints where each thread is.
const TELLING: f64 = 0.9;

/// How copies import modules.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Imports {
    /// As plain python does
    Eager,
    /// With a profile of the piece of work, which is recorded before
    Lazy,
}

/// The common parts of a run's rows.
pub struct Trial {
    /// The `hydrozoa` command.
    pub command: PathBuf,
    /// How the copies import modules.
    pub imports: Imports,
    pub copies: usize,
    pub rounds: usize,
    /// How many processes with all copies run, one behind the other.
    pub times: usize,
    /// The time limit of each process, in seconds.
    pub limit: f64,
}

/// The driver's output.
#[derive(Deserialize, Default)]
struct Report {
    /// For each round, the name, digest and first characters of each result.
    rounds: Vec<Vec<(String, String, String)>>,
    error: Option<String>,
    versions: BTreeMap<String, String>,
}

impl Trial {
    /// Runs the row in an environment that has its packages.
    pub fn run(&self, row: &Row, environment: &Path, key: &str) -> Result<Finding> {
        let folder = tempfile::tempdir().context("making a temporary folder")?;
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        for folder in [&first, &second] {
            create(folder)?;
        }
        let (plain, again) = std::thread::scope(|scope| {
            let second = scope.spawn(|| self.plain(row, environment, &second));
            (self.plain(row, environment, &first), second.join().expect("no panic"))
        });
        let words = Words { environment, folder: folder.path(), list: row.list };
        let (plain, again) = match (plain?, again?) {
            (Ok(plain), Ok(again)) => (plain, again),
            (Err(reason), _) | (_, Err(reason)) => {
                return Ok(Finding::of(Outcome::Unusable, words.line(&reason), key));
            }
        };
        let release = plain.versions.get(&row.packages[0]).cloned();
        let mut finding = match difference(&plain, &again) {
            Some(found) => {
                Finding::of(Outcome::Unusable, words.line(&format!("two processes: {found}")), key)
            }
            None => {
                let (outcome, cause) = self.repeated(row, environment, folder.path(), &plain)?;
                Finding {
                    outcome,
                    cause: cause.map(|cause| words.line(&cause)),
                    release: None,
                    results: plain.rounds.first().map(Vec::len),
                    key: key.to_owned(),
                }
            }
        };
        finding.release = release;
        Ok(finding)
    }

    fn arguments(&self, command: &mut Command, row: &Row, folder: &Path) {
        command.arg(list::driver()).arg(row.file()).arg("--folder").arg(folder);
        command.args(["--rounds", &self.rounds.to_string()]);
        command.args(["--seconds", &(self.limit * TELLING).to_string()]);
        command.arg("--packages").args(&row.packages);
    }

    /// The report of plain python, or why it is missing.
    fn plain(
        &self,
        row: &Row,
        environment: &Path,
        folder: &Path,
    ) -> Result<Result<Report, String>> {
        let mut command = venv::python(environment);
        self.arguments(&mut command, row, folder);
        let log = folder.join("log");
        let end = time_limit::run(&mut command, self.limit, &log)?;
        Ok(match (report(folder, 0), end) {
            (Some(Report { error: Some(error), .. }), _) => Err(error),
            (Some(report), End::Exited(0)) => Ok(report),
            _ => Err(format!("{}: {}", end.words(), time_limit::last_line(&log))),
        })
    }

    /// The first of the processes with all copies that is not equal, or equal.
    fn repeated(
        &self,
        row: &Row,
        environment: &Path,
        folder: &Path,
        plain: &Report,
    ) -> Result<(Outcome, Option<String>)> {
        if self.imports == Imports::Lazy {
            let inside = folder.join("recording");
            create(&inside)?;
            let log = inside.join("log");
            let mut command = self.command(environment);
            command.arg("--record-imports").arg(profile(folder)).arg("--");
            self.arguments(&mut command, row, &inside);
            let end = time_limit::run(&mut command, self.limit, &log)?;
            if end != End::Exited(0) {
                let words = format!("recording: {}: {}", end.words(), time_limit::last_line(&log));
                return Ok((Outcome::Raises, Some(words)));
            }
        }
        for time in 1..=self.times {
            let inside = folder.join(format!("copies-{time}"));
            create(&inside)?;
            let (outcome, cause) = self.copies(row, environment, &inside, plain)?;
            if outcome != Outcome::Equal {
                let which = format!("process {time} of {}: ", self.times);
                let which = if self.times > 1 { which } else { String::new() };
                return Ok((outcome, cause.map(|cause| which + &cause)));
            }
        }
        Ok((Outcome::Equal, None))
    }

    fn copies(
        &self,
        row: &Row,
        environment: &Path,
        folder: &Path,
        plain: &Report,
    ) -> Result<(Outcome, Option<String>)> {
        let log = folder.join("log");
        let end = time_limit::run(&mut self.in_copies(row, environment, folder), self.limit, &log)?;
        let reports: Vec<_> = (1..=self.copies).map(|copy| (copy, report(folder, copy))).collect();
        let (outcome, mut cause) = judge(plain, &reports, end, &log);
        if let (Outcome::Dies, End::Signal(_)) = (outcome, end) {
            // A second run tells where. It is not the one that is judged: its signal handlers might change the result.
            let second = folder.join("faults");
            create(&second)?;
            let log = second.join("log");
            let mut command = self.in_copies(row, environment, &second);
            let again = time_limit::run(command.arg("--faults"), self.limit, &log)?;
            if again == end
                && let Some(place) = place(&log)
            {
                cause = cause.map(|cause| format!("{cause}, {place}"));
            }
        }
        Ok((outcome, cause))
    }

    /// `hydrozoa python` without a program.
    fn command(&self, environment: &Path) -> Command {
        let mut command = venv::clean(Command::new(&self.command));
        command.arg("python").arg("--venv").arg(environment);
        command
    }

    fn in_copies(&self, row: &Row, environment: &Path, folder: &Path) -> Command {
        let copies = self.copies.to_string();
        let mut command = self.command(environment);
        if self.imports == Imports::Lazy {
            let beside = folder.parent().expect("it is below the folder of the row");
            command.arg("--lazy-imports").arg(profile(beside));
        }
        command.args(["--copies", &copies, "--in", "all", "--"]);
        self.arguments(&mut command, row, folder);
        command.args(["--copies", &copies]);
        command
    }
}

/// The profile of imports of a piece of work.
fn profile(folder: &Path) -> PathBuf {
    folder.join("profile")
}

fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder).with_context(|| format!("creating {}", folder.display()))
}

fn report(folder: &Path, copy: usize) -> Option<Report> {
    serde_json::from_slice(&std::fs::read(folder.join(format!("copy-{copy}.json"))).ok()?).ok()
}

/// The verdict on the copies' reports and the end of their process. A dead or a late process matters most: the reports of
/// the other copies do not say why.
fn judge(
    plain: &Report,
    reports: &[(usize, Option<Report>)],
    end: End,
    log: &Path,
) -> (Outcome, Option<String>) {
    let raised = reports.iter().find_map(|(copy, report)| {
        let error = report.as_ref()?.error.as_ref()?;
        Some(format!("copy {copy}: {error}"))
    });
    let differs = reports.iter().find_map(|(copy, report)| {
        Some(format!("copy {copy}: {}", difference(plain, report.as_ref()?)?))
    });
    match end {
        End::Late => {
            let place = place(log);
            let unknown = || "no stack of Python was printed".to_owned();
            return (Outcome::Hangs, Some(place.unwrap_or_else(unknown)));
        }
        End::Signal(_) => {
            let words = format!("{}: {}", end.words(), time_limit::last_line(log));
            return (Outcome::Dies, Some(words));
        }
        End::Exited(_) => {}
    }
    if let Some(cause) = raised {
        return (Outcome::Raises, Some(cause));
    }
    if end != End::Exited(0) || reports.iter().any(|(_, report)| report.is_none()) {
        return (Outcome::Dies, Some(format!("{}: {}", end.words(), time_limit::last_line(log))));
    }
    match differs {
        Some(cause) => (Outcome::Differs, Some(cause)),
        None => (Outcome::Equal, None),
    }
}

/// The first result in which two reports differ.
fn difference(expected: &Report, found: &Report) -> Option<String> {
    for (number, (expected, found)) in (1..).zip(expected.rounds.iter().zip(&found.rounds)) {
        for ((name, digest, text), (other_name, other_digest, other_text)) in
            expected.iter().zip(found)
        {
            if name != other_name {
                return Some(format!("round {number}: result {other_name} instead of {name}"));
            }
            if digest != other_digest {
                return Some(format!("round {number}: {name} is {other_text} instead of {text}"));
            }
        }
        if expected.len() != found.len() {
            let (found, expected) = (found.len(), expected.len());
            return Some(format!("round {number}: {found} results instead of {expected}"));
        }
    }
    let (expected, found) = (expected.rounds.len(), found.rounds.len());
    (expected != found).then(|| format!("{found} rounds instead of {expected}"))
}

fn lines(log: &Path) -> Vec<String> {
    let bytes = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::trim).map(str::to_owned).collect()
}

/// Where the first thread was when the driver or a fault printed the stacks (faulthandler, `File "…", line N in f`).
fn place(log: &Path) -> Option<String> {
    let lines = lines(log);
    let begins =
        |line: &String| line.starts_with("Timeout (") || line.starts_with("Fatal Python error: ");
    let mut stacks = lines.iter().skip_while(|line| !begins(line));
    stacks.find_map(|line| {
        let (file, rest) = line.strip_prefix("File \"")?.split_once("\", ")?;
        Some(format!("in {file}, {rest}"))
    })
}

/// Folders of this run, which a cause must not name.
struct Words<'a> {
    environment: &'a Path,
    folder: &'a Path,
    list: List,
}

impl Words<'_> {
    /// A text as one short line that is the same on every machine.
    fn line(&self, text: &str) -> String {
        const LONGEST: usize = 200;
        let tests = self.list.folder();
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for folder in [self.environment, self.folder, tests.as_path()] {
            text = text.replace(&format!("{}/", folder.display()), "");
        }
        text = text.split(' ').map(without_folders).collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
            text.push('…');
        }
        text
    }
}

/// A word whose path, if it has one, is the file's name alone: libraries name folders of the machine that built them.
fn without_folders(word: &str) -> String {
    let begins = |(at, _): &(usize, &str)| {
        let before = word[..*at].chars().next_back();
        let url = word[*at..].starts_with("//");
        !url && before.is_none_or(|before| !before.is_alphanumeric() && !"./_-".contains(before))
    };
    let Some((start, _)) = word.match_indices('/').find(begins) else { return word.to_owned() };
    match word[start..].rsplit_once('/') {
        Some((folders, file)) if folders.contains('/') => format!("{}{file}", &word[..start]),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(results: &[(&str, &str)], error: Option<&str>) -> Report {
        let round = |(name, digest): &(&str, &str)| {
            ((*name).to_owned(), (*digest).to_owned(), format!("<{digest}>"))
        };
        Report {
            rounds: vec![results.iter().map(round).collect()],
            error: error.map(str::to_owned),
            versions: BTreeMap::new(),
        }
    }

    fn judged(end: End, first: Option<Report>, second: Option<Report>) -> (Outcome, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let stack = "Timeout (0:00:09)!\nThread 0x7f (most recent call first):\n  File \"a.py\", line 7 in wait\n";
        std::fs::write(&log, format!("{stack}the last line\n\n")).expect("a log");
        let plain = report(&[("a", "1"), ("b", "2")], None);
        let (outcome, cause) = judge(&plain, &[(1, first), (2, second)], end, &log);
        (outcome, cause.unwrap_or_default())
    }

    #[test]
    fn a_cause_names_no_folder_of_a_machine() {
        let folder = Path::new("/cache/venv");
        let words = Words { environment: folder, folder: Path::new("/tmp/x"), list: List::Areas };
        let line = words.line(
            "in \"/cache/venv/lib/a.py\",\n line 3 (/build/llvm/lib/Value.cpp:286) a/b /dev/null",
        );
        assert_eq!(line, "in \"lib/a.py\", line 3 (Value.cpp:286) a/b null");
        assert_eq!(words.line(&"é".repeat(300)).chars().count(), 201);
    }

    #[test]
    fn a_copy_is_judged_by_its_process_its_error_and_its_results() {
        let right = || Some(report(&[("a", "1"), ("b", "2")], None));
        let wrong = || Some(report(&[("a", "1"), ("b", "3")], None));
        let short = || Some(report(&[("a", "1")], None));
        let raised = || Some(report(&[("a", "1")], Some("KeyError: 'x'")));
        let ok = End::Exited(0);
        assert_eq!(judged(ok, right(), right()), (Outcome::Equal, String::new()));
        let (outcome, cause) = judged(ok, right(), wrong());
        assert_eq!(
            (outcome, cause.as_str()),
            (Outcome::Differs, "copy 2: round 1: b is <3> instead of <2>")
        );
        let (outcome, cause) = judged(ok, short(), right());
        assert_eq!(
            (outcome, cause.as_str()),
            (Outcome::Differs, "copy 1: round 1: 1 results instead of 2")
        );
        let (outcome, cause) = judged(End::Exited(1), right(), raised());
        assert_eq!((outcome, cause.as_str()), (Outcome::Raises, "copy 2: KeyError: 'x'"));
        let (outcome, cause) = judged(End::Signal(11), raised(), None);
        assert_eq!((outcome, cause.as_str()), (Outcome::Dies, "SIGSEGV: the last line"));
        assert_eq!(judged(ok, right(), None).0, Outcome::Dies);
        assert_eq!(judged(End::Exited(1), right(), right()).0, Outcome::Dies);
        let (outcome, cause) = judged(End::Late, right(), None);
        assert_eq!((outcome, cause.as_str()), (Outcome::Hangs, "in a.py, line 7 in wait"));
    }
}

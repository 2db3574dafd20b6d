//! Runs and watches one fuzz target, and minimises its corpus.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::GREATEST_INPUT;
use crate::progress::Progress;

/// The inputs and limits of a run.
pub(super) struct Folders {
    pub binary: PathBuf,
    pub corpus: PathBuf,
    pub seeds: PathBuf,
    pub failures: PathBuf,
}

/// The result of a run.
#[derive(Default)]
pub(super) struct Report {
    pub seconds: f64,
    pub executions: u64,
    /// Edges that the minimised corpus reaches.
    pub coverage: u64,
    /// Files of the minimised corpus, and their size together.
    pub inputs: usize,
    pub bytes: u64,
    /// Inputs that failed.
    pub failures: Vec<PathBuf>,
    pub log: PathBuf,
}

/// Runs the target for `seconds`. It starts the target again after an input has failed, so that one failure does not
/// hide the next.
pub(super) fn run(name: &str, place: &Folders, seconds: f64) -> Result<Report> {
    fs::create_dir_all(&place.corpus)?;
    fs::create_dir_all(&place.failures)?;
    let mut report = Report { log: place.failures.with_extension("log"), ..Report::default() };
    let mut log = fs::File::create(&report.log)?;
    let started = Instant::now();
    let progress = Progress::new(name, seconds as u64);
    loop {
        let left = seconds - started.elapsed().as_secs_f64();
        if left < 1.0 {
            break;
        }
        let mut command = target(place);
        command.arg(format!("-max_total_time={}", left as u64));
        command.args([&place.corpus, &place.seeds]);
        let (executions, clean) = watch(&mut command, &progress, &mut log)?;
        report.executions += executions;
        if !clean && executions == 0 {
            // The target fails before its first input, so every further start would fail too.
            break;
        }
    }
    report.seconds = started.elapsed().as_secs_f64();
    report.failures = files(&place.failures)?;
    progress.note("minimising the corpus");
    minimise(place, &mut report, &mut log)?;
    Ok(report)
}

/// The target's program with the limits that apply to every run.
fn target(place: &Folders) -> Command {
    let mut command = Command::new(&place.binary);
    command
        .args(["-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1"])
        .arg(format!("-max_len={GREATEST_INPUT}"))
        .arg(format!("-artifact_prefix={}/", place.failures.display()));
    command
}

/// Runs libFuzzer and shows its last line once a second. Returns the number of calls of the target, and whether
/// libFuzzer ran to its end.
fn watch(command: &mut Command, progress: &Progress, log: &mut fs::File) -> Result<(u64, bool)> {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("starting it")?;
    let mut executions = 0;
    let mut shown = Instant::now();
    for line in BufReader::new(child.stderr.take().context("stderr is piped")?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        writeln!(log, "{line}")?;
        if let Some(number) = count(&line) {
            executions = number;
        }
        if line.starts_with('#') && shown.elapsed().as_secs() >= 1 {
            let passed = shown.elapsed().as_secs();
            shown = Instant::now();
            progress.advance(passed, line.split(" L: ").next().unwrap_or_default());
        }
    }
    Ok((executions, child.wait()?.success()))
}

/// The number of executions in a line of libFuzzer's output.
fn count(line: &str) -> Option<u64> {
    let number = match line.strip_prefix("stat::number_of_executed_units:") {
        Some(rest) => rest,
        None => line.strip_prefix('#')?.split_whitespace().next()?,
    };
    number.trim().parse().ok()
}

/// Replaces the corpus by the smallest set of its inputs and of the seeds that reaches the same edges as all of them.
fn minimise(place: &Folders, report: &mut Report, log: &mut fs::File) -> Result<()> {
    let smaller = place.corpus.with_extension("minimised");
    if smaller.exists() {
        fs::remove_dir_all(&smaller)?;
    }
    fs::create_dir_all(&smaller)?;
    let output = target(place)
        .arg("-merge=1")
        .args([&smaller, &place.corpus, &place.seeds])
        .output()
        .context("starting the merge")?;
    log.write_all(&output.stderr)?;
    ensure!(output.status.success(), "merging failed: see {}", report.log.display());
    fs::remove_dir_all(&place.corpus)?;
    fs::rename(&smaller, &place.corpus)?;
    let inputs = files(&place.corpus)?;
    report.inputs = inputs.len();
    report.bytes =
        inputs.iter().map(|input| Ok(fs::metadata(input)?.len())).sum::<Result<u64>>()?;
    // MERGE-OUTER: 95 new files with 1861 new features added; 910 new coverage edges
    let text = String::from_utf8_lossy(&output.stderr);
    report.coverage = text
        .lines()
        .rfind(|line| line.starts_with("MERGE-OUTER") && line.ends_with("new coverage edges"))
        .and_then(|line| line.split("; ").last()?.split(' ').next()?.parse().ok())
        .context("the merge printed no coverage")?;
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_progress_and_from_the_end() {
        assert_eq!(count("#2048\tNEW    cov: 12 ft: 13 corp: 2/9b"), Some(2048));
        assert_eq!(count("stat::number_of_executed_units: 7110"), Some(7110));
        assert_eq!(count("###### Recommended dictionary. ######"), None);
    }
}

//! `cargo xtask lab cycles`: what interpreters leave that have ended, one after the other, while another one serves.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::environment::{self, Environment};
use crate::libtest::counted;
use crate::plot::Lines;
use crate::{section, workspace};

/// Options of `cargo xtask lab cycles`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Cycles of each CPython that this machine has, without packages; 0 for an earlier run's measurements
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    bare: u64,
    /// Cycles with numpy, likewise
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    numpy: u64,
    /// Cycles with torch, likewise
    #[arg(long, value_name = "N", default_value_t = 500)]
    torch: u64,
    /// Write a table and plots to docs/performance.md
    #[arg(long)]
    page: bool,
}

/// A test that runs cycles.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// The file name of its plots.
    file: &'static str,
    program: &'static str,
    test: &'static str,
    cycles: u64,
}

fn kinds(arguments: &Arguments) -> [Kind; 3] {
    let kind = |name, file, program, test, cycles| Kind { name, file, program, test, cycles };
    let (bare, other) = ("cycles", "cycles_torch");
    let torch = "what_an_interpreter_with_torch_had_is_given_back";
    [
        kind(
            "bare",
            "bare",
            bare,
            "what_an_interpreter_had_is_given_back_while_another_one_serves",
            arguments.bare,
        ),
        kind(
            "numpy",
            "numpy",
            other,
            "what_an_interpreter_with_numpy_had_is_given_back",
            arguments.numpy,
        ),
        kind("torch", "torch", other, torch, arguments.torch),
    ]
}

/// The process's resources after some cycles of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    series: usize,
    cycle: u64,
    bytes: i64,
    /// Mappings, descriptors, threads and thread keys.
    others: [u64; 4],
}

const OTHERS: [&str; 4] = ["mappings", "descriptors", "threads", "thread keys"];

/// Runs the tests, each in a process of its own. An error if one leaves more than it may.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let folder = workspace::target()?.join("cycles");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut measured = Vec::new();
    for kind in kinds(arguments) {
        let csv = folder.join(format!("{}.csv", kind.file));
        if kind.cycles > 0 {
            eprintln!("{}: {} cycles", kind.name, kind.cycles);
            measure(&environment, &kind, &csv)?;
        }
        let samples = if csv.exists() { read(&csv)? } else { Vec::new() };
        measured.push((kind, samples));
    }
    print!("{}", part(&measured, ""));
    if arguments.page {
        let page = workspace::root().join("docs/performance.md");
        let plots = measured.iter().filter(|(_, samples)| !samples.is_empty());
        let plots = plots.flat_map(|(kind, samples)| drawn(kind, samples)).collect();
        section::write_with_files(&page, "cycles", plots, |old| part(&measured, old))?;
    }
    Ok(())
}

const HEAD: &str = "| interpreters | cycles | bytes that each has left | mappings | descriptors | threads | thread keys |\n\
                    |---|---:|---:|---:|---:|---:|---:|\n";

/// A table with a row for each series, then the plots. Kinds without samples have what `old`, the page's part, says of
/// them.
fn part(kinds: &[(Kind, Vec<Sample>)], old: &str) -> String {
    let (mut table, mut pictures) = (String::from(HEAD), String::new());
    for (kind, samples) in kinds {
        if samples.is_empty() {
            let own = [format!("| {} |", kind.name), format!("| {}, run ", kind.name)];
            let rows = old.lines().filter(|row| own.iter().any(|start| row.starts_with(start)));
            table.extend(rows.map(|row| format!("{row}\n")));
        } else {
            table.extend(series(samples).map(|series| line(kind, series)));
        }
        for plot in files(kind) {
            let picture = format!("![{}](performance/{plot})", plot.trim_end_matches(".svg"));
            if !samples.is_empty() || old.contains(&picture) {
                pictures.push_str(&format!("\n{picture}\n"));
            }
        }
    }
    table + &pictures
}

/// The names of a kind's plots: memory, and all else.
fn files(kind: &Kind) -> [String; 2] {
    ["memory", "others"].map(|what| format!("cycles-{}-{what}.svg", kind.file))
}

fn measure(environment: &Environment, kind: &Kind, csv: &Path) -> Result<()> {
    let _ = fs::remove_file(csv);
    let mut command = workspace::cargo();
    command.args(["test", "--release", "--package", "hydrozoa", "--test", kind.program]);
    command.args(["--", "--exact", kind.test]);
    command.env("HYDROZOA_TEST_VENV", environment.root()).env("OMP_NUM_THREADS", "1");
    command.env("HYDROZOA_TEST_CYCLES", kind.cycles.to_string());
    command.env("HYDROZOA_TEST_CYCLES_CSV", csv);
    let outcome = counted(&mut command)?;
    ensure!(outcome.failures.is_empty(), "{}: {}", kind.name, outcome.failures.join("; "));
    Ok(())
}

fn read(csv: &Path) -> Result<Vec<Sample>> {
    let text = fs::read_to_string(csv).with_context(|| format!("reading {}", csv.display()))?;
    text.lines()
        .map(|line| parsed(line).with_context(|| format!("{}: {line}", csv.display())))
        .collect()
}

fn parsed(line: &str) -> Result<Sample> {
    let fields = line.split(',').map(str::parse).collect::<Result<Vec<i64>, _>>()?;
    let [series, cycle, bytes, others @ ..] = &fields[..] else {
        anyhow::bail!("seven numbers are wanted");
    };
    let others: Vec<u64> = others.iter().map(|&number| number as u64).collect();
    let others = others.try_into().ok().context("seven numbers are wanted")?;
    Ok(Sample { series: *series as usize, cycle: *cycle as u64, bytes: *bytes, others })
}

/// The samples of each series.
fn series(samples: &[Sample]) -> impl Iterator<Item = &[Sample]> {
    samples.chunk_by(|one, other| one.series == other.series)
}

/// A series as a row of the table.
fn line(kind: &Kind, samples: &[Sample]) -> String {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return String::new();
    };
    let each = (last.bytes - first.bytes) / last.cycle.max(1) as i64;
    let changes = first
        .others
        .iter()
        .zip(last.others)
        .map(|(before, after)| format!(" {before} -> {after} |"));
    let name = match samples[0].series {
        0 => kind.name.to_owned(),
        number => format!("{}, run {}", kind.name, number + 1),
    };
    format!("| {name} | {} | {each} |{}\n", last.cycle, changes.collect::<String>())
}

/// Memory over the cycles, and all else over the cycles, as files.
fn drawn(kind: &Kind, samples: &[Sample]) -> [(String, String); 2] {
    let names: Vec<String> =
        series(samples).map(|one| format!("run {}", one[0].series + 1)).collect();
    let of = |one: &[Sample], value: &dyn Fn(&Sample) -> f64| {
        one.iter().map(|sample| (sample.cycle as f64, value(sample))).collect::<Vec<_>>()
    };
    let memory = series(samples).zip(&names);
    let memory = Lines {
        title: &format!("Private memory: {}", kind.name),
        axes: ["cycles", "MiB"],
        series: memory
            .map(|(one, name)| (&name[..], of(one, &|sample| sample.bytes as f64 / 1_048_576.0)))
            .collect(),
    };
    let last = series(samples).last().unwrap_or_default();
    let others = Lines {
        title: &format!("Mappings, descriptors, threads, keys: {}", kind.name),
        axes: ["cycles", "number"],
        series: OTHERS
            .iter()
            .enumerate()
            .map(|(place, name)| (*name, of(last, &|sample| sample.others[place] as f64)))
            .collect(),
    };
    let [first, second] = files(kind);
    [(first, memory.svg()), (second, others.svg())]
}

#[cfg(test)]
mod tests {
    use super::{Kind, Sample, drawn, line, parsed, part, series};

    #[test]
    fn lines_of_the_tests_become_rows_and_plots() {
        let text = ["0,0,1000,5,3,2,1", "0,10,2000,5,3,2,1", "1,0,7,5,3,2,1", "1,10,7,9,3,2,1"];
        let samples: Vec<Sample> = text.map(|line| parsed(line).unwrap()).into();
        assert_eq!(samples[1], Sample { series: 0, cycle: 10, bytes: 2000, others: [5, 3, 2, 1] });
        let kind = Kind { name: "bare", file: "bare", program: "", test: "", cycles: 10 };
        let rows: Vec<String> = series(&samples).map(|one| line(&kind, one)).collect();
        assert_eq!(rows[0], "| bare | 10 | 100 | 5 -> 5 | 3 -> 3 | 2 -> 2 | 1 -> 1 |\n");
        assert_eq!(rows[1], "| bare, run 2 | 10 | 0 | 5 -> 9 | 3 -> 3 | 2 -> 2 | 1 -> 1 |\n");
        let [memory, others] = drawn(&kind, &samples);
        assert!(memory.1.contains("run 2") && others.1.contains("thread keys"));
        let other = Kind { name: "numpy", file: "numpy", ..kind };
        let old = part(&[(other, samples.clone())], "");
        let both = part(&[(kind, samples), (other, Vec::new())], &old);
        assert_eq!(both.matches("| numpy").count(), 2, "{both}");
        assert_eq!(both.matches("\n| bare").count(), 2, "{both}");
        assert_eq!(both.matches(".svg)").count(), 4, "{both}");
        for wrong in ["", "0,0,1", "0,0,1,2,3,4,x", "0,0,1,2,3,4,5,6"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}

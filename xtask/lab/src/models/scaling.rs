//! `cargo xtask lab models --scaling`: each model called by 1, 2 and 4 threads, by all contenders, as the paper's figure of scaling has it.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use hydrozoa_measure::samples;
use serde::{Deserialize, Serialize};

use super::{Model, Setup, json, remove};
use crate::comparisons::program;
use crate::plot::{Lines, number_text};
use crate::{compare, measurements, section, workspace};

/// Numbers of callers. `CALLERS` in benches/src/bin/compare/scaling.
const CALLERS: [usize; 3] = [1, 2, 4];

/// The contenders, in the order of the table's columns.
const CONTENDERS: [&str; 5] =
    ["one interpreter", "interpreters", "processes", "prefork", "TorchScript"];

/// Options of the measurement.
#[derive(clap::Args, Clone)]
pub struct Options {
    /// Instead: calls a second of each model with 1, 2 and 4 callers: one interpreter, an interpreter each, processes, prefork
    /// children, TorchScript from Rust
    #[arg(long)]
    scaling: bool,
    /// With --scaling: seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// With --scaling: how often everything is measured; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// With --scaling or --from: write table and plot to docs/models.md, and the measurements beside it
    #[arg(long)]
    page: bool,
    /// With --page: measure nothing, and read what an earlier run has written
    #[arg(long, value_name = "FILE", requires = "page")]
    from: Option<PathBuf>,
}

impl Options {
    pub fn is_asked(&self) -> bool {
        self.scaling
    }

    /// Writes the page from an earlier run's measurements, if asked. Returns whether it was.
    pub fn is_written(&self) -> Result<bool> {
        let is_measured = self.scaling || self.from.is_some();
        ensure!(is_measured || !self.page, "--page needs --scaling, or --from with a file");
        let Some(path) = &self.from else { return Ok(false) };
        write_page(&measurements::read(path)?)?;
        Ok(true)
    }
}

/// A contender with a number of callers, as `compare scaling` prints it and as a line of docs/models/scaling.csv. A model that does not script has a line that says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Row {
    machine: String,
    #[serde(default)]
    model: String,
    contender: String,
    /// `compare scaling` counts them.
    #[serde(alias = "count")]
    callers: usize,
    throughput: f64,
    ratio: f64,
    least: f64,
    greatest: f64,
    p50_ms: f64,
    p99_ms: f64,
    calls: usize,
    wrong: usize,
    #[serde(default)]
    reason: String,
}

/// Whether a model is TorchScript, by tests/models/script.py.
#[derive(Deserialize)]
struct Scripted {
    reason: Option<String>,
}

/// Measures the models one after the other. Returns an error if a result differs from plain python's.
pub fn run(place: &Setup, models: &[Model], arguments: &Options, keep: bool) -> Result<()> {
    let compare = program()?;
    let scripted = scripted(place)?;
    let scratch = workspace::target()?.join("scaling.csv");
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for model in models {
        eprintln!("{}", model.title);
        match measure(place, model, arguments, &compare, &scripted) {
            Ok(measured) => {
                rows.extend(measured);
                // A run that is interrupted loses nothing.
                measurements::write(&scratch, &rows)?;
            }
            Err(error) => {
                eprintln!("  error: {error:#}");
                failed.push(model.name.clone());
            }
        }
        if !keep {
            place.remove(&model.name)?;
            for file in ["ts", "ts.expected"] {
                remove(&place.folder.join(format!("{}.{file}", model.name)))?;
            }
        }
    }
    print!("{}", text(&rows));
    let wrong: usize = rows.iter().map(|row| row.wrong).sum();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    if arguments.page {
        write_page(&rows)?;
    }
    ensure!(wrong == 0, "{wrong} results differ from plain python's");
    Ok(())
}

/// The program that calls TorchScript, built against the environment's libtorch.
fn scripted(place: &Setup) -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--package", "hydrozoa-benches", "--features", "tch"]);
    command.args(["--bin", "scripted"]);
    workspace::executable(place.base.with_libtorch(&mut command)?, "scripted")
}

fn measure(
    place: &Setup,
    model: &Model,
    arguments: &Options,
    compare: &Path,
    scripted: &Path,
) -> Result<Vec<Row>> {
    let name = &model.name;
    place.export(name)?;
    let mut script = place.models.python();
    script.arg(workspace::root().join("tests/models/script.py")).env("OMP_NUM_THREADS", "1");
    let reason = json::<Scripted>(script.arg(name).arg(&place.folder))?.reason;
    let file = |end: &str| place.folder.join(format!("{name}.{end}"));
    let mut command = compare::role(compare, "scaling", place.base.root());
    command.arg("--package").arg(place.package(name)).arg("--expected").arg(file("expected"));
    command.args(["--model", name]).arg("--models").arg(place.models.root());
    command.arg("--catalogue").arg(workspace::root().join("tests/models"));
    command.arg("--scripts").arg(compare::scripts());
    command.args(["--seconds", &arguments.seconds.to_string()]);
    command.args(["--rounds", &arguments.rounds.to_string()]);
    if model.draws {
        command.arg("--draws");
    }
    match &reason {
        Some(reason) => eprintln!("  no TorchScript: {reason}"),
        None => {
            command.arg("--scripted").arg(scripted).arg(place.base.libtorch()?);
            command.arg(file("ts")).arg(file("ts.expected"));
        }
    }
    let mut rows: Vec<Row> = json(&mut command)?;
    rows.iter_mut().for_each(|row| row.model.clone_from(&model.title));
    rows.extend(reason.map(|reason| Row {
        model: model.title.clone(),
        contender: "TorchScript".to_owned(),
        reason,
        ..Row::default()
    }));
    Ok(rows)
}

/// Writes table and plot to docs/models.md, and the measurements beside it.
fn write_page(rows: &[Row]) -> Result<()> {
    let page = workspace::root().join("docs/models.md");
    let files = vec![("scaling.csv".to_owned(), measurements::text(rows)?), plot(rows)];
    section::write_with_files(&page, "models --scaling", files, |_| text(rows))
}

/// The rows of each model, in the order of the file.
fn models(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|one, other| one.model == other.model)
}

/// The ratio of a contender with a number of callers.
fn ratio(model: &[Row], contender: &str, callers: usize) -> Option<f64> {
    model
        .iter()
        .find(|row| row.contender == contender && row.callers == callers)
        .map(|row| row.ratio)
}

fn text(rows: &[Row]) -> String {
    let machine = rows.first().map_or("", |row| &row.machine);
    let mut text = format!(
        "Measured on {machine}. *1 process* is calls a second of one plain python process. The other columns are multiples of it, with \
         {} callers.\n\n| model | 1 process | {} |\n|---|---:|{}\n",
        CALLERS.map(|count| count.to_string()).join(", "),
        CONTENDERS.join(" | "),
        "---|".repeat(CONTENDERS.len())
    );
    for model in models(rows) {
        let one = model.iter().find(|row| row.contender == "processes" && row.callers == 1);
        let one = one.map_or("-".to_owned(), |row| number_text(row.throughput));
        let cells = cells(|contender, callers| ratio(model, contender, callers));
        text.push_str(&format!("| {} | {one} | {cells} |\n", model[0].model));
    }
    let cells = cells(|contender, callers| median(rows, contender, callers));
    text.push_str(&format!("| median | | {cells} |\n"));
    let calls: usize = rows.iter().map(|row| row.calls).sum();
    let wrong: usize = rows.iter().map(|row| row.wrong).sum();
    text.push_str(&format!(
        "\n{calls} results were compared with plain python's, bit for bit; {wrong} differ.\n\nNo TorchScript:\n\n"
    ));
    for row in rows.iter().filter(|row| !row.reason.is_empty()) {
        text.push_str(&format!("- {}: {}\n", row.model, row.reason.replace('<', "&lt;")));
    }
    text.push_str("\n![scaling](models/scaling.svg)\n");
    text
}

/// A cell for each contender, with the figures of all numbers of callers.
fn cells(figure: impl Fn(&str, usize) -> Option<f64>) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
    let cell = |contender| CALLERS.map(|callers| number(figure(contender, callers))).join(", ");
    CONTENDERS.map(cell).join(" | ")
}

/// The median over the models that have the contender.
fn median(rows: &[Row], contender: &str, callers: usize) -> Option<f64> {
    let all: Vec<f64> = models(rows).filter_map(|model| ratio(model, contender, callers)).collect();
    (!all.is_empty()).then(|| samples::median(&all))
}

fn plot(rows: &[Row]) -> (String, String) {
    let series = CONTENDERS.map(|contender| {
        let point = |callers: usize| Some((callers as f64, median(rows, contender, callers)?));
        (contender, CALLERS.into_iter().filter_map(point).collect())
    });
    let plot = Lines {
        title: "Median over the models: calls a second, times one process",
        axes: ["callers", "times the calls of one process"],
        series: series.into(),
    };
    ("scaling.svg".to_owned(), plot.svg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn row(model: &str, contender: &str, callers: usize, ratio: f64) -> Row {
        let (model, contender) = (model.to_owned(), contender.to_owned());
        Row { model, contender, callers, ratio, calls: 7, ..Row::default() }
    }

    #[test]
    fn a_model_s_row_has_all_callers_of_each_contender_and_a_dash_for_what_was_not_measured() {
        let rows = [
            row("a", "processes", 1, 1.0),
            row("a", "processes", 2, 1.9),
            row("a", "interpreters", 2, 2.0),
            row("b", "interpreters", 2, 1.0),
            Row { reason: "it draws".to_owned(), ..row("b", "TorchScript", 0, 0.0) },
        ];
        let text = text(&rows);
        assert!(
            text.contains(
                "| a | 0.00 | -, -, - | -, 2.00, - | 1.00, 1.90, - | -, -, - | -, -, - |"
            ),
            "{text}"
        );
        assert!(text.contains("| median | | -, -, - | -, 1.50, - | 1.00, 1.90, - |"), "{text}");
        assert!(text.contains("35 results") && text.contains("- b: it draws\n"), "{text}");
    }

    #[test]
    fn the_page_has_the_table_and_the_plot_of_the_measurements_beside_it() {
        let docs = workspace::root().join("docs");
        let rows = measurements::read(&docs.join("models/scaling.csv")).expect("measurements");
        let page = fs::read_to_string(docs.join("models.md")).expect("the page");
        let made = section::replaced(&page, "models --scaling", |_| text(&rows));
        let made = made.expect("its marks");
        assert!(
            page == made,
            "`cargo xtask lab models --from docs/models/scaling.csv --page` writes it"
        );
        let (name, plot) = plot(&rows);
        assert_eq!(fs::read_to_string(docs.join("models").join(name)).expect("the plot"), plot);
    }
}

//! Tables of results for docs/serving.md, and the plots beside them.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::overload;
use super::results::{Results, Window};
use super::system::System;
use crate::plot::{Bars, number_text};
use crate::section;

/// The models as readers know them.
pub fn title(model: &str) -> &str {
    match model {
        "blank" => "identity of 16 numbers",
        "mobilenet" => "mobilenet_v3_small",
        "text" => "tokenizer and transformer",
        "megabyte" => "1 MB of input",
        other => other,
    }
}

/// Replaces the tables of a page, and writes its plots to the folder `serving` beside it.
pub fn write(page: &Path, results: &Results) -> Result<()> {
    section::write_with_files(page, "serve", plots(results), |_| section_of(results))
}

fn section_of(results: &Results) -> String {
    format!("{}\n", text(results))
}

/// All tables, with links to the plots.
pub fn text(results: &Results) -> String {
    let machine = &results.machine;
    let loads = results.windows.iter().map(|window| window.load);
    let (least, most) =
        loads.fold((f64::MAX, 0.0_f64), |(least, most), load| (least.min(load), most.max(load)));
    let mut text = format!(
        "Measured on {} cores ({}, {:.0} GiB).",
        machine.cores, machine.processor, machine.memory_gib
    );
    if !results.windows.is_empty() {
        let _ = write!(
            text,
            " Medians of {} windows of {} s for each figure. The machine's load, the comparison's own included, was from {least:.1} to \
             {most:.1}.",
            results.rounds, results.seconds
        );
    }
    text.push('\n');
    for model in results.models() {
        throughput(&mut text, results, model);
    }
    memory(&mut text, results);
    for overload in &results.overload {
        let _ = writeln!(text, "\nOverload: {}.", overload::words(overload));
    }
    faults(&mut text, results);
    targets(&mut text, results);
    text
}

fn connections(results: &Results, model: &str) -> Vec<usize> {
    let of = results.windows.iter().filter(|window| window.model == model);
    let mut all: Vec<_> = of.map(|window| window.connections).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number_text)
}

fn throughput(text: &mut String, results: &Results, model: &str) {
    let connections = connections(results, model);
    let _ = writeln!(
        text,
        "\n**{}**: requests/s, p50 / p99 in ms, and the server's time of processors for a request in ms, by connections\n",
        title(model)
    );
    let _ = write!(text, "| system |");
    for connections in &connections {
        let _ = write!(text, " {connections} | p50 / p99 | CPU |");
    }
    let _ = writeln!(text, "\n|---|{}", "---:|---:|---:|".repeat(connections.len()));
    for system in results.systems() {
        let figure = |connections: usize, figure: fn(&Window) -> f64| {
            results.median((system, model, connections), figure)
        };
        if connections.iter().all(|count| figure(*count, |it| it.throughput).is_none()) {
            continue;
        }
        let _ = write!(text, "| {} |", System::title(system));
        for count in &connections {
            let _ = write!(
                text,
                " {} | {} / {} | {} |",
                cell(figure(*count, |it| it.throughput)),
                cell(figure(*count, |it| it.p50_ms)),
                cell(figure(*count, |it| it.p99_ms)),
                cell(figure(*count, |it| it.cpu_ms))
            );
        }
        text.push('\n');
    }
    let _ = writeln!(text, "\n![{}](serving/{model}.svg)", title(model));
}

fn memory(text: &mut String, results: &Results) {
    if results.memory.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n**Memory** of the server and all its processes, in MiB: pages that are of no file, and Pss\n\n\
         | system | model | models | instances of each | own | Pss | processes | ready after, s |\n\
         |---|---|---:|---:|---:|---:|---:|---:|"
    );
    for taken in &results.memory {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.0} | {:.0} | {} | {:.1} |",
            System::title(&taken.system),
            title(&taken.model),
            taken.models,
            taken.instances,
            taken.own_mib,
            taken.shares_mib,
            taken.processes,
            taken.ready_seconds
        );
    }
    if results.systems().iter().any(|system| results.further(system, "mobilenet").is_some()) {
        let _ = writeln!(text, "\n![memory of instances](serving/memory.svg)");
    }
}

/// A healthy model beside faulty ones.
fn faults(text: &mut String, results: &Results) {
    let Some(first) = results.faults.first() else { return };
    let _ = writeln!(
        text,
        "\n**Faults**: latency of a model that returns its input, one connection, beside a faulty model that is asked all the time and by itself. \
         {} windows of {} s of each kind, in turns; medians. All answers of the healthy model were right.\n\n\
         | the faulty model | p50 / p99 beside, ms | p50 / p99 without, ms | answers of the faulty one |\n|---|---:|---:|---|",
        first.rounds, first.seconds
    );
    for fault in &results.faults {
        let answers: Vec<_> =
            fault.statuses.iter().map(|(status, count)| format!("{count} x {status}")).collect();
        let [beside, without] = [fault.beside, fault.without]
            .map(|it| format!("{} / {}", number_text(it.p50_ms), number_text(it.p99_ms)));
        let _ =
            writeln!(text, "| {} | {beside} | {without} | {} |", fault.fault, answers.join(", "));
    }
}

/// The aims and the measurements.
fn targets(text: &mut String, results: &Results) {
    let mut rows = Vec::new();
    let mut row = |what: String,
                   aim: String,
                   found: Option<f64>,
                   is_met: fn(f64, f64) -> bool,
                   limit: f64| {
        if let Some(found) = found {
            let met = if is_met(found, limit) { "yes" } else { "no" };
            rows.push(format!("| {what} | {aim} | {found:.2} | {met} |"));
        }
    };
    let at_least: fn(f64, f64) -> bool = |found, limit| found >= limit;
    let at_most: fn(f64, f64) -> bool = |found, limit| found <= limit;
    let theirs = results.further("triton-python", "mobilenet");
    let own = ["hydrozoa", "hydrozoa-settled", "hydrozoa-recorded"];
    for system in own {
        let ratio =
            results.further(system, "mobilenet").zip(theirs).map(|(own, theirs)| own / theirs);
        let what = format!(
            "a further mobilenet, {}, of that in Triton's Python backend",
            System::title(system)
        );
        row(what, "at most 0.33".to_owned(), ratio, at_most, 1.0 / 3.0);
    }
    for system in own {
        let own = results.taken(system, "mobilenet", 10, 2);
        let theirs = results.taken("triton-python", "mobilenet", 4, 2);
        let ratio = own.zip(theirs).map(|(own, theirs)| own.own_mib / theirs.own_mib);
        let what = format!(
            "ten mobilenets of two instances, {}, of four in Triton's Python backend",
            System::title(system)
        );
        row(what, "at most 1".to_owned(), ratio, at_most, 1.0);
    }
    // The last is the least number of connections for which more requests are aimed at.
    let speed = [
        ("hydrozoa", "mobilenet", "triton-python", 1.0, 1),
        ("hydrozoa-settled", "mobilenet", "triton-python", 1.0, 1),
        ("hydrozoa", "blank", "triton-python", 1.5, 8),
        ("hydrozoa", "megabyte", "litserve", 1.5, 1),
        ("hydrozoa", "megabyte", "fastapi", 1.5, 1),
    ];
    for (system, model, other, limit, least) in speed {
        for count in connections(results, model) {
            let names = [system, other];
            let [own, theirs] = names.map(System::title);
            let against = format!("{}, {count} connections, {own}, of {theirs}", title(model));
            let ratio = results
                .ratio(names, model, count, |window| window.throughput)
                .filter(|_| count >= least);
            row(
                format!("requests/s: {against}"),
                format!("at least {limit}"),
                ratio,
                at_least,
                limit,
            );
            let ratio = results.ratio(names, model, count, |window| window.p99_ms);
            row(format!("p99: {against}"), "at most 1".to_owned(), ratio, at_most, 1.0);
        }
    }
    if !rows.is_empty() {
        let _ = writeln!(
            text,
            "\n**Aims** of hydrozoa serve. Ratios of speed are medians of those within one round\n\n\
             | what | aim | measured | met |\n|---|---|---:|---|\n{}",
            rows.join("\n")
        );
    }
}

/// Names of files with their contents.
fn plots(results: &Results) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for model in results.models() {
        let counts = connections(results, model);
        let series = results.systems().into_iter().map(|system| {
            let value = |count: &usize| results.median((system, model, *count), |it| it.throughput);
            (System::title(system), counts.iter().map(value).collect::<Vec<_>>())
        });
        let series = series.filter(|(_, values)| values.iter().any(Option::is_some));
        let bars = Bars {
            title: title(model),
            axis: "requests in a second: more is better",
            groups: counts.iter().map(|count| format!("connections: {count}")).collect(),
            series: series.collect(),
        };
        plots.push((format!("{model}.svg"), bars.svg()));
    }
    let of = || results.memory.iter().filter(|it| it.model == "mobilenet" && it.models == 1);
    let mut instances: Vec<_> = of().map(|taken| taken.instances).collect();
    instances.sort_unstable();
    instances.dedup();
    if !instances.is_empty() {
        let series = results.systems().into_iter().map(|system| {
            let value = |count: &usize| {
                results.taken(system, "mobilenet", 1, *count).map(|taken| taken.own_mib)
            };
            (System::title(system), instances.iter().map(value).collect::<Vec<_>>())
        });
        let series = series.filter(|(_, values)| values.iter().any(Option::is_some));
        let bars = Bars {
            title: "mobilenet_v3_small: memory of the server and all its processes",
            axis: "MiB that are of no file: less is better",
            groups: instances.iter().map(|count| format!("instances: {count}")).collect(),
            series: series.collect(),
        };
        plots.push(("memory.svg".to_owned(), bars.svg()));
    }
    plots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::results::Taken;
    use crate::workspace;
    use hydrozoa_measure::machine::Machine;
    use std::fs;

    fn results() -> Results {
        let window = |system: &str, throughput: f64, p99_ms: f64| Window {
            system: system.to_owned(),
            model: "blank".to_owned(),
            connections: 8,
            round: 1,
            requests: 1,
            throughput,
            p50_ms: 1.0,
            p99_ms,
            cpu_ms: 0.5,
            load: 2.0,
        };
        let taken = |system: &str, instances: usize, own_mib: f64| Taken {
            system: system.to_owned(),
            model: "mobilenet".to_owned(),
            models: 1,
            instances,
            own_mib,
            ..Taken::default()
        };
        Results {
            machine: Machine {
                processor: "P".to_owned(),
                cores: 2,
                memory_gib: 8.0,
                ..Machine::default()
            },
            seconds: 1.0,
            rounds: 1,
            windows: vec![window("hydrozoa", 300.0, 2.0), window("triton-python", 150.0, 4.0)],
            memory: vec![
                taken("hydrozoa", 1, 100.0),
                taken("hydrozoa", 2, 150.0),
                taken("triton-python", 1, 100.0),
                taken("triton-python", 2, 200.0),
            ],
            overload: Vec::new(),
            faults: Vec::new(),
        }
    }

    #[test]
    fn aims_that_are_missed_say_so() {
        let text = text(&results());
        let met = "| requests/s: identity of 16 numbers, 8 connections, hydrozoa serve, of Triton, Python backend | at least 1.5 | 2.00 | yes |";
        assert!(text.contains(met), "{text}");
        let missed = "| a further mobilenet, hydrozoa serve, of that in Triton's Python backend | at most 0.33 | 0.50 | no |";
        assert!(text.contains(missed), "{text}");
        assert!(text.contains("| hydrozoa serve | 300 | 1.00 / 2.00 | 0.50 |"), "{text}");
    }

    #[test]
    fn the_manual_has_the_tables_and_plots_of_the_results_beside_it() {
        let docs = workspace::root().join("docs");
        let results = Results::read(&docs.join("serving/results.json")).expect("results");
        let page = fs::read_to_string(docs.join("serving.md")).expect("the page");
        let made = section::replaced(&page, "serve", |_| section_of(&results)).expect("its marks");
        assert!(
            page == made,
            "`cargo xtask lab serve --from docs/serving/results.json --page` writes it"
        );
        for (name, plot) in plots(&results) {
            let path = docs.join("serving").join(&name);
            assert!(fs::read_to_string(path).is_ok_and(|text| text == plot), "{name}");
        }
    }
}

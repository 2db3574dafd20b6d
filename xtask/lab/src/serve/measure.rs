//! Windows in turns, and memory of one server alone.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::results::{Results, Taken, Window, load};
use super::running::{Running, cases};
use super::system::{Installed, Served, System};

/// Instances of each server in windows: one for each processor of the smallest machine that is worth measuring on.
const INSTANCES: usize = 2;

/// How long a window is.
#[derive(Debug, Clone)]
pub struct Turns {
    pub seconds: f64,
    pub rounds: usize,
    pub connections: Vec<usize>,
}

/// All systems serve a model at once. One works, the others are stopped. Each has its turn in each round, the first to come
/// changes from round to round.
pub fn windows(
    (place, client): (&Installed, &Path),
    systems: &[System],
    model: &str,
    turns: &Turns,
    results: &mut Results,
) -> Result<()> {
    let served = Served { model, models: 1, instances: INSTANCES };
    let mut running: Vec<Running> = Vec::new();
    for system in systems {
        eprintln!("{model}: starting {}", system.name());
        let one = Running::start(place, *system, served)?;
        one.pause()?;
        running.push(one);
    }
    let cases = cases(&place.folder, model);
    for round in 1..=turns.rounds {
        for &connections in &turns.connections {
            for turn in 0..running.len() {
                let one = &running[(turn + round) % running.len()];
                one.resume()?;
                let before = one.processor_seconds();
                let report = one.closed((client, 0, &cases), connections, turns.seconds)?;
                let cpu = one.processor_seconds() - before;
                one.pause()?;
                ensure!(
                    report.requests > 0,
                    "{} has answered nothing in {} s; `--seconds` makes windows longer",
                    one.system.name(),
                    turns.seconds
                );
                eprintln!(
                    "{model}, {connections} connections, round {round}: {:<16} {:>9.1} requests/s, p50 {:.2} ms, p99 {:.2} ms",
                    one.system.name(),
                    report.throughput,
                    report.p50_ms,
                    report.p99_ms
                );
                results.windows.push(Window {
                    system: one.system.name().to_owned(),
                    model: model.to_owned(),
                    connections,
                    round,
                    requests: report.requests,
                    throughput: report.throughput,
                    p50_ms: report.p50_ms,
                    p99_ms: report.p99_ms,
                    cpu_ms: cpu * 1e3 / report.all_requests as f64,
                    load: load(),
                });
            }
        }
    }
    for one in running {
        one.end()?;
    }
    Ok(())
}

/// Starts one server, has all instances answer, and measures its memory.
pub fn memory(
    (place, client): (&Installed, &Path),
    system: System,
    served: Served<'_>,
    results: &mut Results,
) -> Result<()> {
    let one = Running::start(place, system, served)?;
    let cases = cases(&place.folder, served.model);
    for model in 0..served.models {
        one.closed((client, model, &cases), 4 * served.instances, 0.7)?;
    }
    // Leaves time for the requests' memory to be freed.
    sleep(Duration::from_secs(1));
    let memory = one.memory()?;
    let taken = Taken {
        system: system.name().to_owned(),
        model: served.model.to_owned(),
        models: served.models,
        instances: served.instances,
        ready_seconds: one.server.ready_seconds,
        own_mib: memory.own,
        shares_mib: memory.shares,
        processes: memory.processes,
    };
    eprintln!(
        "{} of {} with {} instances: {:<16} ready in {:.1} s, {:.0} MiB of its own, Pss {:.0} MiB, {} processes",
        served.models,
        served.model,
        served.instances,
        taken.system,
        taken.ready_seconds,
        taken.own_mib,
        taken.shares_mib,
        taken.processes
    );
    results.memory.push(taken);
    one.end()
}

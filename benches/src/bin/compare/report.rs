//! The report: a table for people, JSON for programs, and whether each promise holds.

use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::median;
use serde::Serialize;

use crate::measured::{Figures, Measured, find, number, ratios};

/// Promised in docs/specification.md: two interpreters against one on mobilenet_v3_small at batch 1, on two cores.
const TWO_AGAINST_ONE: f64 = 1.9;
/// Promised in docs/specification.md: two interpreters against one interpreter with two threads, likewise.
const TWO_AGAINST_THREADS: f64 = 1.7;
/// If two separate processes stay below this many times the throughput of one in a round, the round does not count:
/// the machine had no second core to give. If it counted, an implementation that serialised its interpreters would
/// pass there.
const SECOND_CORE: f64 = 1.6;

/// The gain from a second thread that the two promises imply: torch's own work runs without the GIL.
const BY_A_THREAD: f64 = TWO_AGAINST_ONE / TWO_AGAINST_THREADS;

/// The model of the promises.
const MODEL: &str = "mobilenet_v3_small";

/// A promise: its name, the two lines (kind, count) that it compares, and the least ratio of the first's throughput
/// to the second's.
type Promised = (&'static str, Key, Key, f64);
/// A line of the table: its kind, and the number of its interpreters, threads or processes.
type Key = (&'static str, usize);
const PROMISES: [Promised; 2] = [
    ("2 interpreters against 1", ("interpreters", 2), ("interpreters", 1), TWO_AGAINST_ONE),
    (
        "2 interpreters against 1 with 2 threads",
        ("interpreters", 2),
        ("threads", 2),
        TWO_AGAINST_THREADS,
    ),
];

/// Lines whose throughput is compared in the same rounds, for information: interpreters beside what users would take instead.
const BESIDE: [(&str, Key, Key); 2] = [
    ("2 interpreters beside 2 processes", ("interpreters", 2), ("processes", 2)),
    ("2 interpreters beside 2 prefork children", ("interpreters", 2), ("prefork", 2)),
];

/// A call's cost beside throughput, which depends as much on a machine's other users as on the program. Promised in
/// docs/specification.md: each of two interpreters does no more of it than each of two processes.
struct Cost {
    name: &'static str,
    of: fn(&Measured) -> Option<f64>,
    /// So many times what processes do, and so much more, is the same.
    times: f64,
    more: f64,
}

const COSTS: [Cost; 3] = [
    Cost { name: "millions of instructions", of: Measured::instructions_m, times: 1.01, more: 0.0 },
    Cost { name: "switches of threads", of: |one| Some(one.switches()), times: 1.0, more: 0.5 },
    Cost { name: "page faults", of: |one| Some(one.faults()), times: 1.0, more: 0.5 },
];

/// The whole result.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    seconds: f64,
    /// Number of rounds that measured everything.
    rounds: usize,
    /// Number of rounds that measured the lines of the promises.
    rounds_of_promises: usize,
    lines: Vec<Figures>,
    /// Whether the lines are there that tell which of the latter had a second core to give.
    tells: bool,
    /// How many of them had one. Only these judge the promises.
    judged: usize,
    /// Throughput of two separate processes against one in the judged rounds: the capacity of the machine.
    processes: f64,
    /// Throughput of two threads of a separate process against one in the judged rounds: the share that the GIL does
    /// not hold up.
    threads: f64,
    promises: Vec<Promise>,
    bounds: Vec<Bound>,
    beside: Vec<Beside>,
    calls: usize,
    wrong: usize,
}

/// Throughput of one line over that of another, in the same rounds.
#[derive(Debug, Serialize)]
struct Beside {
    lines: &'static str,
    ratio: f64,
    rounds: usize,
}

#[derive(Debug, Serialize)]
struct Promise {
    promise: String,
    /// The figure in docs/specification.md, for a machine with two free cores.
    promised: f64,
    /// The figure that applies to this machine: see [`Report::new`].
    wanted: f64,
    measured: f64,
    kept: bool,
}

/// One of [`COSTS`], for each call.
#[derive(Debug, Serialize)]
struct Bound {
    what: String,
    measured: f64,
    /// Of two processes.
    processes: f64,
    most: f64,
    kept: bool,
}

impl Report {
    /// The promises are for two free cores. The same rounds measure what the machine can really give: two separate
    /// processes share nothing but the machine. Rounds in which it had no second core to give are not judged. In the
    /// others the promises shrink in proportion where two processes do not reach twice the throughput of one, and the
    /// report says so.
    ///
    /// Interpreters gain over threads the time that threads lose to the GIL. Where memory is slow, torch's own work
    /// takes more of a call, and the gain is smaller. A plain python process with two threads shows by how much, and
    /// the promise against threads shrinks in proportion to that.
    pub fn new(measured: &[Measured], seconds: f64) -> Self {
        let one = ("interpreters", 1);
        let lines: Vec<Figures> =
            measured.iter().map(|line| Figures::of(line, measured, one)).collect();
        let judged = judged(measured);
        let in_judged = |of, to| {
            let ratios = ratios(find(measured, MODEL, of), find(measured, MODEL, to));
            median(
                &judged.iter().filter_map(|round| ratios.get(*round).copied()).collect::<Vec<_>>(),
            )
        };
        let processes = in_judged(("processes", 2), ("processes", 1));
        let threads = in_judged(("process-threads", 2), ("processes", 1));
        let offered = (processes / 2.0).min(1.0);
        let held_up = (BY_A_THREAD / threads).min(1.0);
        let promises = PROMISES.map(|(text, of, to, promised)| {
            let ratio = in_judged(of, to);
            let share = if to.0 == "threads" { offered * held_up } else { offered };
            let wanted = promised * share;
            Promise {
                promise: format!("{text}, {MODEL}"),
                promised,
                wanted,
                measured: ratio,
                kept: !judged.is_empty() && ratio >= wanted,
            }
        });
        Self {
            machine: Machine::this(),
            seconds,
            rounds: measured.iter().map(|one| one.rounds.len()).min().unwrap_or(0),
            rounds_of_promises: measured.iter().map(|one| one.rounds.len()).max().unwrap_or(0),
            calls: lines.iter().map(|row| row.calls).sum(),
            wrong: lines.iter().map(|row| row.wrong).sum(),
            lines,
            tells: [1, 2]
                .iter()
                .all(|count| find(measured, MODEL, ("processes", *count)).is_some()),
            judged: judged.len(),
            processes,
            threads,
            promises: promises.into(),
            bounds: bounds(measured),
            beside: BESIDE.map(|(lines, of, to)| beside(lines, measured, of, to)).into(),
        }
    }

    pub fn print(&self) {
        let Machine { processor, cores, memory_gib, .. } = &self.machine;
        println!(
            "{processor}, {cores} cores, {memory_gib:.0} GiB; medians of {} rounds of {} s",
            self.rounds, self.seconds
        );
        let mut model = "";
        for row in &self.lines {
            if row.model != model {
                model = &row.model;
                println!(
                    "\n{model:<28} {:>8} {:>6} {:>7} {:>7} {:>7} {:>8} {:>7} {:>10} {:>12}",
                    "calls/s",
                    "ratio",
                    "p50 ms",
                    "p99 ms",
                    "M instr",
                    "switches",
                    "faults",
                    "first MiB",
                    "further MiB"
                );
            }
            println!(
                "{:<28} {:>8.1} {:>6} {:>7.2} {:>7.2} {:>7} {:>8.1} {:>7.1} {:>10.1} {:>12}",
                row.contender,
                row.throughput,
                if row.ratio > 0.0 { format!("{:.2}", row.ratio) } else { "-".to_owned() },
                row.p50_ms,
                row.p99_ms,
                number(row.instructions_m),
                row.switches,
                row.faults,
                row.first_mib,
                number(row.further_mib)
            );
        }
        if self.lines.iter().all(|row| row.instructions_m.is_none()) {
            println!(
                "\ninstructions are not counted: this machine gives no counters of the processor (perf_event_open(2))"
            );
        }
        println!();
        if self.tells {
            println!(
                "{} of {} rounds had a second core to give (2 separate processes at least {SECOND_CORE} times 1, {MODEL})",
                self.judged, self.rounds_of_promises
            );
        } else {
            println!(
                "whether the machine had a second core to give is not known: 1 and 2 processes were not both compared (--counts 1,2)"
            );
        }
        if self.judged > 0 {
            println!(
                "median of these {:.2}, and {:.2} for 2 threads of one process",
                self.processes, self.threads
            );
        }
        // Without a judged round, the promises have no result to print.
        for Promise { promise, promised, wanted, measured, kept } in
            self.promises.iter().filter(|_| self.judged > 0)
        {
            println!(
                "{promise}: {measured:.2}, promised {promised:.1} on two free cores, so {wanted:.2} here: {}",
                if *kept { "kept" } else { "NOT kept" }
            );
        }
        for Bound { what, measured, processes, most, kept } in &self.bounds {
            println!(
                "{what}: {measured:.2}, of processes {processes:.2}, so at most {most:.2}: {}",
                if *kept { "kept" } else { "NOT kept" }
            );
        }
        for Beside { lines, ratio, rounds } in self.beside.iter().filter(|beside| beside.rounds > 0)
        {
            println!("{lines}: {ratio:.2} (median of {rounds} rounds)");
        }
        println!(
            "{} outputs compared with plain python bit for bit, {} differ",
            self.calls, self.wrong
        );
    }

    /// Whether every promise is kept.
    pub fn is_kept(&self) -> bool {
        self.promises.iter().all(|promise| promise.kept)
            && self.bounds.iter().all(|bound| bound.kept)
    }

    /// The reasons for which the run fails.
    pub fn failures(&self, require_speed: bool) -> Vec<String> {
        let mut failures = Vec::new();
        if self.wrong > 0 {
            failures.push(format!("{} outputs differ from plain python's", self.wrong));
        }
        if require_speed && self.judged == 0 {
            failures.push(format!(
                "the promises of speed cannot be judged: in none of {} rounds did two separate processes \
                 reach {SECOND_CORE} times the throughput of one; give the run two free cores",
                self.rounds_of_promises
            ));
        } else if require_speed {
            let broken = self.promises.iter().filter(|promise| !promise.kept);
            failures.extend(broken.map(|promise| {
                format!(
                    "{}: {:.2}, wanted {:.2}",
                    promise.promise, promise.measured, promise.wanted
                )
            }));
        }
        if require_speed {
            let broken = self.bounds.iter().filter(|bound| !bound.kept);
            failures.extend(broken.map(|Bound { what, measured, most, .. }| {
                format!("{what}: {measured:.2}, at most {most:.2} wanted")
            }));
        }
        failures
    }
}

/// Bounds on two interpreters' cost of a call. A quantity that the machine does not count has no bound.
fn bounds(measured: &[Measured]) -> Vec<Bound> {
    let of = |cost: &Cost| {
        let value = |kind| (cost.of)(find(measured, MODEL, (kind, 2))?);
        let (own, processes) = (value("interpreters")?, value("processes")?);
        let most = cost.times * processes + cost.more;
        let what = format!("{} a call, 2 interpreters", cost.name);
        Some(Bound { what, measured: own, processes, most, kept: own <= most })
    };
    COSTS.iter().filter_map(of).collect()
}

/// Whether a promise depends on it: either it is a line of the promise, or it measures the machine.
pub fn is_promised(measured: &Measured) -> bool {
    let line = (measured.line.kind, measured.line.count);
    let promised = || PROMISES.iter().any(|(_, of, to, _)| line == *of || line == *to);
    let tells = line.0 == "process-threads" || line.0 == "processes" && line.1 <= 2;
    measured.model == MODEL && (tells || promised())
}

fn beside(lines: &'static str, all: &[Measured], of: (&str, usize), to: (&str, usize)) -> Beside {
    let ratios = ratios(find(all, MODEL, of), find(all, MODEL, to));
    Beside { lines, ratio: median(&ratios), rounds: ratios.len() }
}

/// The rounds in which the machine had a second core to give.
pub fn judged(measured: &[Measured]) -> Vec<usize> {
    let (two, one) =
        (find(measured, MODEL, ("processes", 2)), find(measured, MODEL, ("processes", 1)));
    let second = ratios(two, one).into_iter().enumerate();
    second.filter(|(_, ratio)| *ratio >= SECOND_CORE).map(|(round, _)| round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Line;
    use hydrozoa_measure::effort::Effort;
    use hydrozoa_measure::samples::Samples;

    /// Two workers of a kind with ten calls.
    fn two(kind: &'static str, effort: Effort) -> Measured {
        let line = Line { label: kind.to_owned(), kind, count: 2, contenders: vec![], threads: 2 };
        let samples = Samples { latencies_us: vec![1.0; 10], effort, ..Samples::default() };
        Measured { rounds: vec![samples], ..Measured::new(MODEL, &line) }
    }

    #[test]
    fn two_interpreters_may_do_what_two_processes_do() {
        let effort = |instructions, switches, faults| Effort {
            instructions,
            switches,
            faults,
            ..Effort::default()
        };
        let kept = |instructions, switches, faults| -> Vec<bool> {
            let measured = [
                two("processes", effort(Some(100_000_000), 10, 0)),
                two("interpreters", effort(Some(instructions), switches, faults)),
            ];
            bounds(&measured).iter().map(|bound| bound.kept).collect()
        };
        assert_eq!(kept(100_900_000, 14, 4), [true, true, true]);
        assert_eq!(kept(101_100_000, 16, 6), [false, false, false]);
        // Without counters, instructions have no bound.
        let uncounted = ["processes", "interpreters"].map(|kind| two(kind, effort(None, 0, 0)));
        let names: Vec<String> = bounds(&uncounted).into_iter().map(|bound| bound.what).collect();
        let expected = ["switches of threads", "page faults"];
        assert_eq!(names, expected.map(|name| format!("{name} a call, 2 interpreters")));
    }
}

//! The table for people.

use hydrozoa_measure::samples::median;

use super::record::Row;
use super::{Outcome, Stop};

pub fn print(outcomes: &[Outcome]) {
    println!(
        "| limit, GiB | workers | served | MiB of the first | of a further one | start, CPU s | calls/s | stops because |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for outcome in outcomes {
        // The first worker is also the process.
        let further: Vec<_> = outcome.rows.iter().filter(|row| row.workers > 1).collect();
        let middle =
            |of: fn(&Row) -> f64| median(&further.iter().map(|row| of(row)).collect::<Vec<_>>());
        println!(
            "| {} | {} | {} | {:.0} | {:.1} | {:.2} | {:.0} | {} |",
            outcome.limit,
            outcome.kind.label(),
            outcome.served,
            outcome.rows.first().map_or(f64::NAN, |row| row.anonymous_mib),
            further_mib(&outcome.rows),
            middle(|row| row.start_cpu_seconds),
            middle(|row| row.throughput),
            reason(&outcome.stop)
        );
    }
}

/// Anonymous memory that a further worker has after it has served.
fn further_mib(rows: &[Row]) -> f64 {
    match rows {
        [first, .., last] => {
            (last.anonymous_mib - first.anonymous_mib) / (last.workers - first.workers) as f64
        }
        _ => f64::NAN,
    }
}

/// The outcome as a line of progress.
pub fn words(outcome: &Outcome) -> String {
    format!("{} workers are served: {}", outcome.served, reason(&outcome.stop))
}

pub fn reason(stop: &Stop) -> String {
    match stop {
        Stop::Failed(reason) => reason.clone(),
        Stop::Slow => format!("p99 is more than {} times that without a limit", super::SLOWER),
        Stop::Enough => "no more were asked for".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workers: usize, anonymous_mib: f64) -> Row {
        Row { workers, anonymous_mib, ..Row::default() }
    }

    #[test]
    fn a_further_worker_costs_what_the_memory_grows_by() {
        let rows = [row(1, 300.0), row(2, 311.0), row(11, 400.0)];
        assert_eq!(further_mib(&rows), 10.0);
        assert!(further_mib(&rows[..1]).is_nan());
    }
}

//! A closed loop: so many requests are under way at each moment as there are connections.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hydrozoa_measure::samples::Samples;
use serde::Serialize;
use tokio::task::LocalSet;

use crate::cases::Cases;
use crate::client::Target;

#[derive(clap::Args)]
pub struct Options {
    /// How many connections
    #[arg(long)]
    connections: usize,
    /// How long requests are counted
    #[arg(long)]
    seconds: f64,
    /// How long requests are sent before
    #[arg(long, default_value_t = 0.3)]
    warm: f64,
}

/// The measurements.
#[derive(Serialize)]
pub struct Report {
    /// In the time that counts.
    requests: usize,
    /// With those before.
    all_requests: usize,
    seconds: f64,
    throughput: f64,
    p50_ms: f64,
    p99_ms: f64,
}

pub async fn run(options: &Options, target: Target, cases: Cases) -> Result<Report> {
    let cases = Rc::new(cases);
    let begin = Instant::now() + Duration::from_secs_f64(options.warm);
    let end = begin + Duration::from_secs_f64(options.seconds);
    let local = LocalSet::new();
    let tasks: Vec<_> = (0..options.connections)
        .map(|connection| {
            let (target, cases) = (target.clone(), Rc::clone(&cases));
            local.spawn_local(one_connection(connection, target, cases, begin, end))
        })
        .collect();
    let (mut total, mut all_requests) = (Samples::default(), 0);
    local
        .run_until(async {
            for task in tasks {
                let (samples, all) = task.await.context("a connection's task")??;
                total.merge(samples);
                all_requests += all;
            }
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    Ok(Report {
        requests: total.latencies_us.len(),
        all_requests,
        seconds: total.seconds,
        throughput: total.throughput(),
        p50_ms: total.latency_ms(0.5),
        p99_ms: total.latency_ms(0.99),
    })
}

/// Any answer that is not the right one is an error: a comparison of wrong answers is worth nothing.
async fn one_connection(
    first: usize,
    target: Target,
    cases: Rc<Cases>,
    begin: Instant,
    end: Instant,
) -> Result<(Samples, usize)> {
    let mut connection = target.connect().await?;
    let mut samples = Samples::default();
    let mut index = first;
    while Instant::now() < end {
        let case = index % cases.len();
        let start = Instant::now();
        let answer = connection.ask(&cases.bodies[case]).await?;
        let took = start.elapsed();
        if answer.status != 200 {
            let words = String::from_utf8_lossy(&answer.body);
            bail!("the server answers {}: {words:.500}", answer.status);
        }
        cases
            .check(case, &answer.headers, &answer.body)
            .with_context(|| format!("the answer to input {case}"))?;
        if start >= begin {
            samples.record(took, true);
        }
        index += 1;
    }
    samples.seconds = begin.elapsed().as_secs_f64();
    Ok((samples, index - first))
}

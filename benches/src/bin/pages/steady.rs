//! Requests at fixed times, fewer than the server could answer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::spawn_local;
use tokio::time::sleep_until;

use crate::connection::{Connection, Target};
use crate::report::{Counted, Report};

#[derive(clap::Args)]
pub struct Options {
    /// Requests in a second
    #[arg(long)]
    rate: f64,
    /// How long
    #[arg(long)]
    seconds: f64,
}

pub async fn run(options: &Options, target: &Target, connections: usize) -> Result<Report> {
    ensure!(options.rate > 0.0, "a rate is above 0");
    let begin = Instant::now();
    let count = (options.rate * options.seconds) as usize;
    let tasks: Vec<_> = (0..connections)
        .map(|first| {
            let (target, rate) = (target.clone(), options.rate);
            spawn_local(async move {
                let mut connection = Connection::new(&target);
                let mut counted = Counted::default();
                for number in (first..count).step_by(connections) {
                    let time = begin + Duration::from_secs_f64(number as f64 / rate);
                    sleep_until(time.into()).await;
                    connection.ask(number, &mut counted).await?;
                    // A request that waits for the one before has taken as long.
                    counted.record(time.elapsed());
                }
                Ok::<_, anyhow::Error>(counted)
            })
        })
        .collect();
    let mut total = Counted::default();
    for task in tasks {
        total.merge(task.await.context("a connection's task")??);
    }
    Ok(total.report(begin.elapsed()))
}

//! A closed loop: so many requests are under way at each moment as there are connections.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::spawn_local;

use crate::connection::{Connection, Target};
use crate::report::{Counted, Report};

#[derive(clap::Args)]
pub struct Options {
    /// How many requests are sent
    #[arg(long, required_unless_present = "seconds", conflicts_with_all = ["seconds", "warm"])]
    requests: Option<usize>,
    /// How long requests are counted
    #[arg(long)]
    seconds: Option<f64>,
    /// How long requests are sent before they are counted
    #[arg(long, default_value_t = 0.0)]
    warm: f64,
}

/// When requests begin to count, when the last one begins, and how many are left.
#[derive(Clone)]
struct Plan {
    begin: Instant,
    end: Option<Instant>,
    left: Rc<Cell<usize>>,
}

pub async fn run(options: &Options, target: &Target, connections: usize) -> Result<Report> {
    let begin = Instant::now() + Duration::from_secs_f64(options.warm);
    let plan = Plan {
        begin,
        end: options.seconds.map(|seconds| begin + Duration::from_secs_f64(seconds)),
        left: Rc::new(Cell::new(options.requests.unwrap_or(usize::MAX))),
    };
    let tasks: Vec<_> = (0..connections)
        .map(|first| spawn_local(one_connection(first, target.clone(), plan.clone())))
        .collect();
    let mut total = Counted::default();
    for task in tasks {
        total.merge(task.await.context("a connection's task")??);
    }
    Ok(total.report(begin.elapsed()))
}

async fn one_connection(first: usize, target: Target, plan: Plan) -> Result<Counted> {
    let mut connection = Connection::new(&target);
    let mut counted = Counted::default();
    for number in first.. {
        let start = Instant::now();
        let Some(left) = plan.left.get().checked_sub(1) else { break };
        if plan.end.is_some_and(|end| start >= end) {
            break;
        }
        plan.left.set(left);
        connection.ask(number, &mut counted).await?;
        if start >= plan.begin {
            counted.record(start.elapsed());
        }
    }
    Ok(counted)
}

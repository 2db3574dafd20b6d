//! An open loop: requests at fixed times, whether or not earlier ones are answered. So a server can be asked for more than it can do.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_measure::samples::percentile;
use serde::Serialize;
use tokio::task::LocalSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::cases::Cases;
use crate::client::{Answer, Connection, Target};

#[derive(clap::Args)]
pub struct Options {
    /// Requests in a second
    #[arg(long)]
    rate: f64,
    /// How long
    #[arg(long)]
    seconds: f64,
    /// Connections at most; a request for which none is free is not sent, and counted
    #[arg(long, default_value_t = 1024)]
    connections: usize,
    /// How long a request may take when the server has recovered
    #[arg(long)]
    calm_ms: f64,
}

/// The fates of the requests.
#[derive(Default, Serialize)]
pub struct Report {
    sent: usize,
    /// Answered with the output of plain python.
    right: usize,
    /// Refused with 429 or 503 and `Retry-After`.
    refused: usize,
    /// Without a free connection.
    unsent: usize,
    /// Any other answer, and its text.
    wrong: usize,
    first_wrong: Option<String>,
    /// Of right answers.
    p50_ms: f64,
    p99_ms: f64,
    /// From the last request of the load until an answer is right and within the calm time.
    recovery_seconds: f64,
}

/// State that the requests share.
struct Shared {
    cases: Cases,
    target: Target,
    limit: usize,
    state: RefCell<OpenLoop>,
}

#[derive(Default)]
struct OpenLoop {
    free: Vec<Connection>,
    open: usize,
    under_way: usize,
    latencies_us: Vec<f64>,
    report: Report,
}

pub async fn run(options: &Options, target: Target, cases: Cases) -> Result<Report> {
    ensure!(options.rate > 0.0, "a rate is above 0");
    let shared =
        Rc::new(Shared { cases, target, limit: options.connections, state: RefCell::default() });
    let local = LocalSet::new();
    local.run_until(load(options, &shared)).await?;
    let mut state = shared.state.take();
    state.report.p50_ms = percentile(&state.latencies_us, 0.5) / 1e3;
    state.report.p99_ms = percentile(&state.latencies_us, 0.99) / 1e3;
    Ok(state.report)
}

async fn load(options: &Options, shared: &Rc<Shared>) -> Result<()> {
    let begin = Instant::now();
    let count = (options.rate * options.seconds) as usize;
    for index in 0..count {
        let time = begin + Duration::from_secs_f64(index as f64 / options.rate);
        sleep_until(time.into()).await;
        let shared = Rc::clone(shared);
        tokio::task::spawn_local(async move { one(&shared, index).await });
    }
    let over = Instant::now();
    recover(options, shared, over).await?;
    // Those of the load that still wait.
    let limit = Instant::now() + Duration::from_secs(60);
    while shared.state.borrow().under_way > 0 {
        ensure!(Instant::now() < limit, "requests are unanswered a minute after the load");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Asks until an answer is right and quick, on connections that did not see the load.
async fn recover(options: &Options, shared: &Rc<Shared>, over: Instant) -> Result<()> {
    let calm = Duration::from_secs_f64(options.calm_ms / 1e3);
    loop {
        if over.elapsed() > Duration::from_secs(60) {
            bail!("the server has not recovered within a minute");
        }
        let start = Instant::now();
        let answer = async { shared.target.connect().await?.ask(&shared.cases.bodies[0]).await };
        if let Ok(Ok(answer)) = timeout(calm, answer).await
            && is_right(&shared.cases, 0, &answer)
            && start.elapsed() <= calm
        {
            shared.state.borrow_mut().report.recovery_seconds = over.elapsed().as_secs_f64();
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn is_right(cases: &Cases, case: usize, answer: &Answer) -> bool {
    answer.status == 200 && cases.check(case, &answer.headers, &answer.body).is_ok()
}

/// The fate of a request.
enum Fate {
    Right(Duration),
    Refused,
    Wrong(String),
}

async fn one(shared: &Shared, index: usize) {
    let connection = {
        let mut state = shared.state.borrow_mut();
        // Connections that the server has closed meanwhile.
        let before = state.free.len();
        state.free.retain(Connection::is_open);
        state.open -= before - state.free.len();
        let connection = state.free.pop();
        if connection.is_none() {
            if state.open >= shared.limit {
                state.report.unsent += 1;
                return;
            }
            state.open += 1;
        }
        state.report.sent += 1;
        state.under_way += 1;
        connection
    };
    let case = index % shared.cases.len();
    let (fate, connection) = match ask(shared, connection, case).await {
        Ok((fate, connection)) => (fate, Some(connection)),
        Err(error) => (Fate::Wrong(format!("{error:#}")), None),
    };
    let mut state = shared.state.borrow_mut();
    state.under_way -= 1;
    match fate {
        Fate::Right(took) => {
            state.report.right += 1;
            state.latencies_us.push(took.as_secs_f64() * 1e6);
        }
        Fate::Refused => state.report.refused += 1,
        Fate::Wrong(words) => {
            state.report.wrong += 1;
            state.report.first_wrong.get_or_insert(words);
        }
    }
    match connection {
        Some(connection) if connection.is_open() => state.free.push(connection),
        _ => state.open -= 1,
    }
}

async fn ask(
    shared: &Shared,
    connection: Option<Connection>,
    case: usize,
) -> Result<(Fate, Connection)> {
    let start = Instant::now();
    let mut connection = match connection {
        Some(connection) => connection,
        None => shared.target.connect().await.context("a further connection")?,
    };
    let answer = connection.ask(&shared.cases.bodies[case]).await?;
    let may_come_later = answer.headers.contains_key("retry-after");
    let fate = match answer.status.as_u16() {
        200 if is_right(&shared.cases, case, &answer) => Fate::Right(start.elapsed()),
        200 => Fate::Wrong(format!("the answer to input {case} differs")),
        429 | 503 if may_come_later => Fate::Refused,
        status => {
            let words = String::from_utf8_lossy(&answer.body);
            Fate::Wrong(format!("{status}, Retry-After {may_come_later}: {words:.300}"))
        }
    };
    Ok((fate, connection))
}

//! A server that is asked for twice what it can do.

use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::results::Overload;
use super::running::{Running, cases};
use super::system::{Installed, Served, System};

/// Requests under way at once, as an operator sets it who wants answers soon.
const MAX_REQUESTS: usize = 32;

/// How much a server may grow after a quarter of the time, in MiB.
const GROWTH: f64 = 32.0;

/// How long a server may take to answer as before, in seconds.
const RECOVERY: f64 = 2.0;

/// The client's report of an open loop.
#[derive(Deserialize)]
struct Open {
    sent: usize,
    right: usize,
    refused: usize,
    unsent: usize,
    wrong: usize,
    first_wrong: Option<String>,
    p99_ms: f64,
    recovery_seconds: f64,
}

/// Measures what `hydrozoa serve` can do, and asks for twice as much for so many seconds.
pub fn overload(
    (place, client): (&Installed, &Path),
    system: System,
    model: &str,
    seconds: f64,
) -> Result<Overload> {
    let served = Served { model, models: 1, instances: 2 };
    let one = Running::start(place, system, served)?;
    let cases = cases(&place.folder, model);
    let calm = one.closed((client, 0, &cases), 1, 1.0)?;
    let full = one.closed((client, 0, &cases), 8, 3.0)?;
    // A right answer within it is one as before: no others wait.
    let calm_ms = (10.0 * calm.p50_ms).max(100.0);
    let before = one.memory()?.own;
    let rate = 2.0 * full.throughput;
    let mut command = one.client(client, 0, &cases);
    command.arg("open").args(["--rate", &rate.to_string(), "--seconds", &seconds.to_string()]);
    command.args(["--calm-ms", &calm_ms.to_string()]);
    let child = command.stdout(Stdio::piped()).spawn().context("starting the client")?;
    let (quarter, most) = watch(&one, &child, seconds)?;
    let output = child.wait_with_output().context("the client")?;
    ensure!(output.status.success(), "the client failed\n{}", one.server.errors());
    let open: Open = serde_json::from_slice(&output.stdout).context("the client's report")?;
    one.end()?;
    Ok(Overload {
        system: system.name().to_owned(),
        model: model.to_owned(),
        capacity: full.throughput,
        rate,
        seconds,
        max_requests: MAX_REQUESTS,
        sent: open.sent,
        right: open.right,
        refused: open.refused,
        unsent: open.unsent,
        wrong: open.wrong,
        first_wrong: open.first_wrong,
        p99_ms: open.p99_ms,
        calm_ms,
        recovery_seconds: open.recovery_seconds,
        before_mib: before,
        quarter_mib: quarter,
        most_mib: most,
    })
}

/// The server's memory at a quarter of the time, and the most after that.
fn watch(one: &Running, client: &Child, seconds: f64) -> Result<(f64, f64)> {
    let begin = Instant::now();
    let (mut quarter, mut most) = (0.0, 0.0_f64);
    let is_running = || Path::new(&format!("/proc/{}", client.id())).exists();
    while begin.elapsed().as_secs_f64() < seconds && is_running() {
        sleep(Duration::from_millis(250));
        let own = one.memory()?.own;
        if begin.elapsed().as_secs_f64() < seconds / 4.0 {
            quarter = own;
        } else {
            most = most.max(own);
        }
    }
    Ok((quarter, most))
}

/// The option for the server.
pub fn options() -> Vec<String> {
    vec!["--max-requests".to_owned(), MAX_REQUESTS.to_string()]
}

/// The broken promises.
pub fn broken(overload: &Overload) -> Vec<String> {
    let mut broken = Vec::new();
    if overload.wrong > 0 {
        let first = overload.first_wrong.as_deref().unwrap_or_default();
        broken.push(format!("{} answers are wrong; the first: {first}", overload.wrong));
    }
    if overload.refused == 0 || overload.right == 0 {
        broken.push(format!(
            "it was not an overload: {} right answers, {} refused",
            overload.right, overload.refused
        ));
    }
    if overload.recovery_seconds > RECOVERY {
        broken.push(format!("recovery took {:.1} s", overload.recovery_seconds));
    }
    let grown = overload.most_mib - overload.quarter_mib;
    if grown > GROWTH {
        broken.push(format!("memory grew by {grown:.0} MiB after the first quarter of the time"));
    }
    broken
}

/// The words for a reader.
pub fn words(overload: &Overload) -> String {
    format!(
        "{}, {} with two instances, {:.0} s at {:.0} requests/s, twice the {:.0} that it can do: {} right answers, {} refused with \
         429 or 503 and Retry-After, {} other answers, {} not sent for want of a connection; p99 of right answers {:.0} ms; \
         memory {:.0} MiB before, {:.0} at a quarter of the time, at most {:.0} after; a right answer within {:.0} ms {:.2} s \
         after the load",
        overload.system,
        overload.model,
        overload.seconds,
        overload.rate,
        overload.capacity,
        overload.right,
        overload.refused,
        overload.wrong,
        overload.unsent,
        overload.p99_ms,
        overload.before_mib,
        overload.quarter_mib,
        overload.most_mib,
        overload.calm_ms,
        overload.recovery_seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_broken_promise_is_named() {
        let right = Overload {
            right: 10,
            refused: 10,
            most_mib: 100.0,
            quarter_mib: 90.0,
            ..Overload::default()
        };
        assert!(broken(&right).is_empty());
        let wrong = Overload { wrong: 2, first_wrong: Some("500".to_owned()), ..right.clone() };
        assert_eq!(broken(&wrong), ["2 answers are wrong; the first: 500"]);
        let idle = Overload { refused: 0, ..right.clone() };
        assert_eq!(broken(&idle), ["it was not an overload: 10 right answers, 0 refused"]);
        let slow = Overload { recovery_seconds: 2.5, ..right.clone() };
        assert_eq!(broken(&slow), ["recovery took 2.5 s"]);
        let grows = Overload { most_mib: 130.0, ..right };
        assert_eq!(broken(&grows), ["memory grew by 40 MiB after the first quarter of the time"]);
    }
}

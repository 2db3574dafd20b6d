//! Workers that crash, run out of memory, are stuck, are used up and are replaced, while clients go on.
//!
//! `HYDROZOA_TEST_UPHEAVAL_SECONDS=600` is the long form; the suite has fifteen seconds for each interface. A crash must be told before the timeout.

use crate::client::Client;
use crate::process::{PATIENCE, Server};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WORKERS: usize = 3;
const CLIENTS: usize = 6;

/// Bytes that a server may have more at its end, and more for each fault: it keeps tables of a crashed interpreter.
const GROWTH: u64 = 24 << 20;
const GROWTH_PER_FAULT: u64 = 64 << 10;

/// The faults, with the statuses that their requests get. The last one is a reload.
const FAULTS: [(&str, u16); 4] =
    [("/crash", 502), ("/memory", 500), ("/stuck?10", 504), ("HUP", 0)];

/// The counts of what clients have got.
#[derive(Debug, Default)]
struct Got {
    right: usize,
    /// Errors of a worker that was killed, by their status.
    killed: usize,
}

/// Sends requests until it is told to stop. Each answer is the request's own text, or says that its worker was killed.
fn ask(address: SocketAddr, client: usize, stops: &AtomicBool) -> Got {
    let mut got = Got::default();
    let mut connection = Client::new(address);
    for number in 0_u64.. {
        if stops.load(Ordering::SeqCst) {
            break;
        }
        let text = format!("{client} {number}");
        let answer = connection.post("/echo", text.as_bytes());
        match answer.status {
            200 => {
                assert_eq!(answer.text(), text);
                got.right += 1;
            }
            502 | 504 => got.killed += 1,
            other => panic!("{other}: {}", answer.text()),
        }
    }
    got
}

/// Has clients stop when it is dropped, also where the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The workers that are ready.
fn ready(admin: SocketAddr) -> usize {
    let text = Client::new(admin).get("/metrics");
    let line =
        text.text().lines().find_map(|line| line.strip_prefix("hydrozoa_web_workers_ready "));
    line.expect("it is among the figures").parse().unwrap()
}

fn wait_until_all_are_ready(server: &Server, admin: SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    while ready(admin) < WORKERS {
        assert!(Instant::now() < deadline, "a worker does not come back:\n{}", server.log.text());
        thread::sleep(Duration::from_millis(5));
    }
}

fn seconds() -> Duration {
    let seconds = std::env::var("HYDROZOA_TEST_UPHEAVAL_SECONDS").ok();
    Duration::from_secs(seconds.map_or(15, |seconds| seconds.parse().unwrap()))
}

/// Serves through all of it. Returns how many requests were in a worker that was killed, and how many workers were.
fn upheaval(application: &str) -> (usize, usize) {
    let options =
        ["--workers", "3", "--contain-crashes", "--timeout", "2", "--max-requests", "2000"];
    let further = [
        "--max-requests-jitter",
        "500",
        "--graceful-timeout",
        "8",
        "--admin",
        "127.0.0.1:0",
        "--access-log",
        "off",
    ];
    let server = Server::start(application, &[&options[..], &further].concat());
    let (address, admin) = (server.address(), server.addresses("/healthz and /metrics")[0]);
    let (ends, stops) = (Instant::now() + seconds(), AtomicBool::new(false));
    let (mut killed, mut faults, mut least) = (0, 0, WORKERS);
    let mut memory = Vec::new();
    let got: Vec<Got> = thread::scope(|scope| {
        let stops = &stops;
        let stop = Stop(stops);
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || ask(address, client, stops))).collect();
        while Instant::now() < ends && !clients.iter().any(|client| client.is_finished()) {
            for (target, status) in FAULTS {
                if status == 0 {
                    server.signal(target);
                } else {
                    let answer = Client::new(address).try_get(target);
                    let answer = answer
                        .unwrap_or_else(|error| panic!("{target}: {error}\n{}", server.log.text()));
                    assert_eq!(answer.status, status, "{target}");
                    killed += usize::from(status != 500);
                }
                faults += 1;
                least = least.min(ready(admin));
                wait_until_all_are_ready(&server, admin);
                memory.push(server.anonymous());
            }
        }
        drop(stop);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let right: usize = got.iter().map(|got| got.right).sum();
    let lost: usize = got.iter().map(|got| got.killed).sum();
    println!(
        "{application}: {right} right answers, {lost} in {killed} killed workers, {faults} faults, anonymous memory {memory:?}"
    );
    assert!(right > 500, "{got:?}");
    assert!(least >= WORKERS - 1, "{least} workers were ready");
    // The first rounds fill the tables. Within a round it rises and falls by as much as a worker takes before it is settled.
    let begin = memory[..memory.len().div_ceil(3)].iter().max().unwrap();
    let end = memory[memory.len() * 2 / 3..].iter().min().unwrap();
    let allowed = GROWTH + GROWTH_PER_FAULT * faults as u64;
    assert!(*end < begin + allowed, "{begin} bytes of anonymous memory became {end}");
    server.end();
    (lost, killed)
}

#[test]
fn workers_of_wsgi_that_are_killed_lose_no_request_of_others() {
    // A worker has one request at a time, so that a worker is killed by that request alone.
    let (lost, _) = upheaval("plain");
    assert_eq!(lost, 0);
}

#[test]
fn workers_of_asgi_that_are_killed_lose_their_own_requests_alone() {
    let (lost, killed) = upheaval("coroutines");
    assert!(lost <= killed * CLIENTS, "{lost} requests were lost with {killed} workers");
}

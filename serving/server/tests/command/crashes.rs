//! Models of the command that crash.
//!
//! `HYDROZOA_TEST_CRASH_SECONDS=600` has one of ten models crash in every tenth request for ten minutes; the suite has twelve seconds.

use crate::common::{Answer, FLOATS, PATIENCE, crashes, floats, until, whole, write_model};
use crate::{Process, get};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A connection that stays, with the requests of one client to one model.
struct Client {
    connection: TcpStream,
    path: String,
}

impl Client {
    fn new(address: SocketAddr, model: &str) -> Self {
        let connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { connection, path: format!("/v2/models/{model}/infer") }
    }

    fn ask(&mut self, value: f32) -> Answer {
        let body = floats(&[1, 1], &[value]).to_string();
        self.connection.write_all(whole(&self.path, &body).as_bytes()).unwrap();
        Answer::read(&mut self.connection)
    }

    /// A request that must be answered as it should be.
    fn serves(&mut self, value: f32) {
        let answer = self.ask(value).ok();
        assert_eq!(answer["outputs"][0]["data"][0], value, "{answer}");
    }
}

/// A model that contains crashes only if the command does.
fn write_crashing(repository: &Path, name: &str) {
    let (_, model) = crashes(&repository.join("gate"));
    write_model(repository, name, 1, FLOATS, &model);
}

#[test]
fn the_command_contains_crashes_if_it_should_and_logs_the_report() {
    let folder = tempfile::tempdir().unwrap();
    write_crashing(folder.path(), "m");
    let mut process = Process::start(folder.path(), &["--contain-crashes", "--crash-limit=2"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let mut client = Client::new(http, "m");
    assert!(
        client.ask(-1.0).error(500).contains("model 'm' (instance 'm_0_0') has crashed: SIGSEGV")
    );
    process.line("model 'm' (instance 'm_0_0') has crashed: SIGSEGV in interpreter 0");
    process.line("Native stack (most recent call first):");
    process.line("string_at+0x");
    process.line("model.py\", line 12 in execute");
    client.serves(2.0);
    process.line("another instance serves in its place");
    client.ask(-1.0).error(500);
    process.line("given up, since it has crashed 2 times in a row");
    process.signal("TERM");
    assert!(process.wait().success());
}

#[test]
fn without_the_option_a_crash_ends_the_command() {
    let folder = tempfile::tempdir().unwrap();
    write_crashing(folder.path(), "m");
    let mut process = Process::start(folder.path(), &[]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let mut connection = TcpStream::connect(http).unwrap();
    let body = floats(&[1, 1], &[-1.0]).to_string();
    connection.write_all(whole("/v2/models/m/infer", &body).as_bytes()).unwrap();
    assert!(!process.wait().success());
}

#[test]
fn nine_models_lose_nothing_beside_one_that_crashes_in_every_tenth_request() {
    let seconds = std::env::var("HYDROZOA_TEST_CRASH_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("a number of seconds"));
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..10).map(|number| format!("m{number}")).collect();
    for name in &names {
        write_crashing(folder.path(), name);
    }
    let mut process = Process::start(folder.path(), &["--contain-crashes", "--crash-limit=0"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let lasts = Duration::from_secs(seconds.unwrap_or(12));
    let is_over = AtomicBool::new(false);
    let (served, crashed, refused) = thread::scope(|scope| {
        let is_over = &is_over;
        let healthy: Vec<_> = names[1..]
            .iter()
            .map(|name| {
                scope.spawn(move || {
                    let (mut client, mut count) = (Client::new(http, name), 0_u64);
                    while !is_over.load(Ordering::Relaxed) {
                        client.serves(count as f32 % 1000.0);
                        count += 1;
                        thread::sleep(Duration::from_millis(2));
                    }
                    count
                })
            })
            .collect();
        let (mut client, end) = (Client::new(http, &names[0]), Instant::now() + lasts);
        let (mut crashed, mut refused) = (0, 0);
        for number in 1.. {
            if Instant::now() >= end {
                break;
            }
            let crashes = number % 10 == 0;
            let answer = client.ask(if crashes { -1.0 } else { 1.0 });
            match answer.status {
                // It pauses between two starts.
                503 => refused += 1,
                500 => {
                    let words = answer.error(500);
                    assert!(crashes && words.starts_with("model 'm0' (instance"), "{words}");
                    crashed += 1;
                }
                _ => assert!(!crashes && answer.ok()["model_name"] == "m0", "{answer:?}"),
            }
            // In the long form an instance serves for more than ten seconds, so that it is started again at once.
            let pause = if lasts > Duration::from_secs(60) { 1050 } else { 10 };
            thread::sleep(Duration::from_millis(pause));
        }
        is_over.store(true, Ordering::Relaxed);
        // Each has checked all of its answers.
        let served: Vec<u64> = healthy.into_iter().map(|one| one.join().unwrap()).collect();
        (served, crashed, refused)
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let memory =
        status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("Threads"));
    let memory: Vec<_> = memory.collect();
    eprintln!(
        "{lasts:?}: {crashed} crashes, {refused} refused meanwhile; others {served:?}; {memory:?}"
    );
    assert!(crashed >= 3 && served.iter().all(|count| *count > 0), "{crashed} {served:?}");
    for name in &names[1..] {
        let ready = format!("/v2/models/{name}/ready");
        get(http, &ready).ok();
    }
    until("readiness", || get(http, "/v2/health/ready").status == 200);
    process.signal("TERM");
    assert!(process.wait().success());
}

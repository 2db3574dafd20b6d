//! The life of workers: limits, replacements, and the end.

use crate::client::{Client, get};
use crate::process::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clients that ask one request after the other until they are told to stop. They give how often each status came.
fn load(
    address: SocketAddr,
    clients: usize,
    target: &'static str,
) -> (Arc<AtomicBool>, Vec<JoinHandle<BTreeMap<u16, usize>>>) {
    let stops = Arc::new(AtomicBool::new(false));
    let ask = move |stops: Arc<AtomicBool>| {
        let mut statuses = BTreeMap::new();
        let mut client = Client::new(address);
        while !stops.load(Ordering::SeqCst) {
            *statuses.entry(client.get(target).status).or_default() += 1;
        }
        statuses
    };
    let threads = (0..clients)
        .map(|_| {
            let stops = stops.clone();
            std::thread::spawn(move || ask(stops))
        })
        .collect();
    (stops, threads)
}

fn stopped(
    (stops, threads): (Arc<AtomicBool>, Vec<JoinHandle<BTreeMap<u16, usize>>>),
) -> BTreeMap<u16, usize> {
    stops.store(true, Ordering::SeqCst);
    let mut all = BTreeMap::new();
    for (status, count) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        *all.entry(status).or_default() += count;
    }
    all
}

#[test]
fn a_reload_under_load_loses_no_request() {
    for (application, target) in [("plain", "/list"), ("coroutines", "/sleep?0.01")] {
        let server = Server::start(application, &["--workers", "2", "--access-log", "off"]);
        let load = load(server.address(), 4, target);
        for times in 1..=2 {
            server.signal("HUP");
            server.log.wait_for("worker 1 is replaced", times);
            server.log.wait_for("worker 2 is replaced", times);
        }
        let statuses = stopped(load);
        assert_eq!(statuses.keys().collect::<Vec<_>>(), [&200], "{statuses:?}");
        let (log, output) = server.end();
        assert!(!log.contains("ERROR"), "{log}");
        // Each application of ASGI has ended in good order.
        let ends = if application == "plain" { 0 } else { 6 };
        assert_eq!(output.matches("the application has ended").count(), ends, "{log}");
    }
}

#[test]
fn max_requests_under_load_loses_no_request() {
    for application in ["plain", "coroutines"] {
        let options = ["--workers", "2", "--max-requests", "50", "--max-requests-jitter", "20"];
        let server = Server::start(application, &options);
        let load = load(server.address(), 4, "/none");
        server.log.wait_for("is replaced", 4);
        let statuses = stopped(load);
        assert_eq!(statuses.keys().collect::<Vec<_>>(), [&404], "{statuses:?}");
        let (log, _) = server.end();
        assert!(!log.contains("ERROR"), "{log}");
    }
}

#[test]
fn a_worker_that_takes_too_much_memory_is_replaced_and_no_request_is_lost() {
    for application in ["plain", "coroutines"] {
        // Also if its memory is on the disk between requests.
        let server = Server::start(application, &["--workers", "2", "--max-memory", "64M"]);
        let address = server.address();
        let load = load(address, 2, "/keep?100000");
        for times in 1..=3 {
            let log = server.log.wait_for("is replaced", 2 * times);
            assert!(log.contains("MiB, more than --max-memory: it is replaced"), "{log}");
        }
        let statuses = stopped(load);
        assert_eq!(statuses.keys().collect::<Vec<_>>(), [&200], "{statuses:?}");
        let (log, _) = server.end();
        assert!(!log.contains("ERROR"), "{log}");
    }
}

#[test]
fn a_worker_within_its_memory_stays() {
    let server = Server::start("plain", &["--workers", "1", "--max-memory", "64M"]);
    let kept = |length: usize| {
        get(server.address(), &format!("/keep?{length}")).text().parse::<usize>().unwrap()
    };
    assert_eq!((kept(20_000_000), kept(20_000_000)), (1, 2));
    assert_eq!(kept(30_000_000), 3);
    server.log.wait_for("worker 1 is replaced", 1);
    assert_eq!(kept(10), 1);
}

#[test]
fn a_request_that_takes_too_long_is_interrupted_and_its_worker_goes_on() {
    let server = Server::start("plain", &["--workers", "1", "--timeout", "0.3"]);
    let address = server.address();
    let began = Instant::now();
    assert_eq!(get(address, "/spin").status, 504);
    assert!(began.elapsed() > Duration::from_millis(300));
    let log = server.log.wait_for("has exceeded --timeout, and is interrupted", 1);
    assert!(log.contains("plain.py"), "{log}");
    assert_eq!(get(address, "/list").status, 200);
    assert!(!server.log.text().contains("is replaced"));
}

#[test]
fn a_worker_that_is_stuck_is_replaced() {
    let server = Server::start("plain", &["--workers", "1", "--timeout", "0.3"]);
    let address = server.address();
    let began = Instant::now();
    assert_eq!(get(address, "/stuck").status, 504);
    assert_eq!(get(address, "/list").status, 200);
    assert!(began.elapsed() < Duration::from_secs(3), "the new worker has not waited for the old");
    server.log.wait_for("worker 1 is replaced", 1);
}

#[test]
fn an_event_loop_that_does_not_go_on_is_replaced() {
    let options = ["--workers", "1", "--timeout", "0.5", "--graceful-timeout", "1"];
    let server = Server::start("coroutines", &options);
    let address = server.address();
    assert_eq!(get(address, "/block?4").status, 504);
    server.log.wait_for("worker 1 is replaced", 1);
    assert_eq!(get(address, "/seen").status, 200);
    // One that waits for something is not in its way.
    assert_eq!(get(address, "/sleep?1.5").status, 200);
}

#[test]
fn requests_that_one_thread_reads_reach_all_workers() {
    let server = Server::start("coroutines", &["--workers", "4", "--io-threads", "1"]);
    let address = server.address();
    let asking: Vec<_> =
        (0..8).map(|_| std::thread::spawn(move || get(address, "/name?2"))).collect();
    let answers = asking.into_iter().map(|asking| asking.join().unwrap());
    let names: BTreeSet<_> = answers.map(|answer| answer.text().to_owned()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn a_loop_that_does_not_go_on_keeps_none_of_the_connections_that_its_thread_serves() {
    // All of them are one loop's.
    let server = Server::start("coroutines", &["--workers", "2", "--io-threads", "1"]);
    let address = server.address();
    let mut open = Client::new(address);
    assert_eq!(open.get("/seen").status, 200);
    for (target, status) in [("/block?4", 200), ("/stuck?4", 500)] {
        let blocked = std::thread::spawn(move || get(address, target));
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(open.get("/seen").status, 200);
            assert_eq!(get(address, "/seen").status, 200);
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{target}: {:?}", began.elapsed());
        assert!(!blocked.is_finished());
        assert_eq!(blocked.join().unwrap().status, status);
    }
}

#[test]
fn a_contained_crash_is_an_error_of_its_request_alone() {
    let server = Server::start("plain", &["--workers", "2", "--contain-crashes"]);
    let address = server.address();
    for times in 1..=2 {
        assert_eq!(get(address, "/crash").status, 502);
        for _ in 0..20 {
            assert_eq!(get(address, "/list").status, 200);
        }
        server.log.wait_for("is replaced", times);
    }
    server.log.wait_for("SIGSEGV", 1);
}

#[test]
fn a_worker_that_cannot_be_loaded_again_leaves_the_old_one_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changing.py");
    let write = |text: &str| {
        std::fs::write(&path, text).unwrap();
        // A source of the same length and second would pass for the compiled one.
        drop(std::fs::remove_dir_all(folder.path().join("__pycache__")));
    };
    let of = |word: &str| {
        format!("def app(environ, start):\n    start('200 OK', [])\n    return [b'{word}']\n")
    };
    write(&of("first"));
    let options = ["--workers", "1", "--app-dir", folder.path().to_str().unwrap()];
    let server = Server::start("changing", &options);
    assert_eq!(get(server.address(), "/").text(), "first");
    write("raise LookupError('not today')\n");
    server.signal("HUP");
    let log = server.log.wait_for("worker 1 cannot be replaced", 1);
    assert!(log.contains("LookupError: not today"), "{log}");
    assert_eq!(get(server.address(), "/").text(), "first");
    // It tries again.
    write(&of("second"));
    server.log.wait_for("worker 1 is replaced", 1);
    assert_eq!(get(server.address(), "/").text(), "second");
}

#[test]
fn the_end_waits_for_requests_under_way_and_for_no_idle_connection() {
    for (application, idle) in [("plain", "/list"), ("coroutines", "/seen")] {
        let mut server = Server::start(application, &["--workers", "2"]);
        let address = server.address();
        let mut kept = Client::new(address);
        assert_eq!(kept.get(idle).status, 200);
        let asked = std::thread::spawn(move || get(address, "/sleep?1"));
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0), "{}", server.log.text());
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!(asked.join().unwrap().text(), "slept");
    }
}

#[test]
fn a_request_beyond_the_graceful_timeout_is_given_up() {
    let mut server =
        Server::start("plain", &["--workers", "1", "--graceful-timeout", "0.5", "--timeout", "0"]);
    let address = server.address();
    let asked = std::thread::spawn(move || {
        let mut client = Client::new(address);
        client.send(b"GET /sleep?30 HTTP/1.1\r\nHost: a\r\n\r\n");
        client.answer(false).is_err()
    });
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    server.signal("INT");
    server.wait();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(asked.join().unwrap());
}

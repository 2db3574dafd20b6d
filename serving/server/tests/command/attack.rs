//! Attacks on the command, and the messages to its operator.
//!
//! The suite has short forms. `HYDROZOA_TEST_ATTACK=1` has 10,000 idle connections, 100 slow bodies, 4,200 unfinished requests and
//! 30 bodies of 60 MB; it takes a minute, and 11,000 descriptors. 3,000 loads fail then (`loads.rs`).

use crate::common::{Answer, ECHO, PATIENCE, head};
use crate::{Process, get, write};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const INFER: &str = "/v2/models/m/infer";

pub fn is_long() -> bool {
    std::env::var_os("HYDROZOA_TEST_ATTACK").is_some()
}

/// Resident memory of the process, in MiB.
fn resident(process: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

/// The longest of some questions about health, each on a connection of its own.
fn health(address: SocketAddr) -> Duration {
    let ask = |_| {
        let began = Instant::now();
        assert_eq!(get(address, "/v2/health/live").status, 200);
        began.elapsed()
    };
    (0..20).map(ask).max().unwrap()
}

fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may have been closed for another one, or refused.
    drop(connection.write_all(bytes));
    connection
}

#[test]
fn health_answers_beside_idle_connections_slow_bodies_and_unfinished_requests() {
    hydrozoa_server::raise_descriptor_limit().unwrap();
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "m", ECHO);
    let (idle, slow, unfinished) = if is_long() { (10_000, 100, 4_200) } else { (600, 20, 200) };
    let few = ["--http-max-connections", "400", "--max-connections-per-client", "300"];
    let mut process = Process::start(folder.path(), if is_long() { &[] } else { &few });
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let before = resident(&process);
    let mut connections: Vec<_> = (0..idle).map(|_| send(http, b"")).collect();
    let half = format!("{}{{", head(INFER, 1000));
    connections.extend((0..slow).map(|_| send(http, half.as_bytes())));
    let (beside, after) = (health(http), resident(&process));
    eprintln!(
        "{idle} idle, {slow} slow: health within {beside:?}; {before} MiB before, {after} after"
    );
    connections.extend((0..unfinished).map(|_| send(http, b"GET /v2/health/live HTTP/1.1\r\nHo")));
    let last = health(http);
    eprintln!("{unfinished} unfinished: health within {last:?}; {} MiB", resident(&process));
    // A machine that tests share may keep the client waiting; it is 100 ms otherwise.
    let most = if is_long() { Duration::from_millis(100) } else { Duration::from_secs(2) };
    assert!(beside.max(last) < most, "{beside:?} {last:?}");
    // 4,096 connections of at most 32 KiB each.
    assert!(resident(&process) < before + 128, "{before} MiB, and then {after}");
    assert_eq!(get(http, "/v2/models/m").ok()["name"], "m");
    process.signal("TERM");
    assert!(process.wait().success());
}

#[test]
fn bodies_that_hold_bytes_back_take_no_more_than_the_server_may_hold() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "m", ECHO);
    let (count, size, most) = if is_long() { (30, 60 << 20, 512) } else { (12, 10 << 20, 40) };
    let (all, of_client) = ((2 * (most << 20)).to_string(), (most << 20).to_string());
    // Slow as they are, they would be refused for that, too.
    let options = [
        "--max-bytes-in-flight",
        &all,
        "--max-bytes-in-flight-per-client",
        &of_client,
        "--http-max-input-size",
        &size.to_string(),
        "--min-body-rate",
        "0",
    ];
    let mut process = Process::start(folder.path(), &options);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let before = resident(&process);
    let body = vec![b' '; size - 10];
    let connections: Vec<_> = (0..count)
        .map(|_| {
            let mut connection = send(http, head(INFER, size).as_bytes());
            drop(connection.write_all(&body));
            connection
        })
        .collect();
    let after = resident(&process);
    let mut refused = 0;
    for mut connection in connections {
        connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut answer = Vec::new();
        drop((&mut connection).take(1 << 16).read_to_end(&mut answer));
        if let Some(answer) = Answer::of(&answer) {
            let message = answer.error(429);
            assert!(message.contains("--max-bytes-in-flight-per-client"), "{message}");
            assert_eq!(answer.header("retry-after"), Some("1"));
            refused += 1;
        }
    }
    eprintln!(
        "{count} bodies of {size} bytes: {before} MiB before, {after} after; {refused} refused"
    );
    assert!(refused >= count - most * (1 << 20) / (size - 10) && refused < count, "{refused}");
    // Bytes read and not yet thrown away are some pieces of 64 KiB.
    assert!(after < before + most + 48, "{before} MiB, and then {after}");
}

#[test]
fn the_server_listens_to_this_machine_alone_and_warns_where_it_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start_by(&[], folder.path(), &[]);
    for what in ["HTTP at ", "metrics at ", "gRPC at "] {
        assert!(process.address(what).ip().is_loopback());
    }
    process.line("the server is ready");
    let mut warnings = process.seen.lines().filter(|line| line.contains("WARN"));
    assert!(warnings.all(|line| line.contains("repositories have no models")), "{}", process.seen);

    let open = ["--http-address", "0.0.0.0", "--grpc-address", "::"];
    let mut process = Process::start_by(&[], folder.path(), &open);
    for (what, protocol) in [("HTTP", "http"), ("metrics", "http"), ("gRPC", "grpc")] {
        let line = process.line("serves everybody who reaches it");
        assert!(line.contains("WARN") && line.contains(&format!("{what} at ")), "{line}");
        for option in ["--auth-token-file", "use-ssl-mutual", "address 127.0.0.1"] {
            assert!(line.contains(option) && line.contains(&format!("--{protocol}-")), "{line}");
        }
    }
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "secret\n").unwrap();
    let closed = [&open[..], &["--auth-token-file", tokens.to_str().unwrap()]].concat();
    let mut process = Process::start_by(&[], folder.path(), &closed);
    process.line("the server is ready");
    assert!(!process.seen.contains("serves everybody"), "{}", process.seen);
}

#[test]
fn the_limit_of_descriptors_is_raised_and_connections_fit_it() {
    let folder = tempfile::tempdir().unwrap();
    let connect = |address: SocketAddr| {
        let mut connections: Vec<_> = (0..300).map(|_| send(address, b"")).collect();
        let began = Instant::now();
        connections.push(send(address, b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let mut answer = [0; 15];
        connections.last_mut().unwrap().read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let open = |connection: &TcpStream| {
            connection.set_nonblocking(true).unwrap();
            connection
                .peek(&mut [0])
                .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        connections[..300].iter().filter(|connection| open(connection)).count()
    };
    // The soft limit is raised.
    let soft = ["prlimit", "--nofile=200:4096"];
    let mut process =
        Process::start_by(&soft, folder.path(), &["--max-connections-per-client", "1000"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    assert_eq!(connect(http), 300);
    // The hard limit is kept to.
    let hard = ["prlimit", "--nofile=256:256"];
    let mut process =
        Process::start_by(&hard, folder.path(), &["--max-connections-per-client", "1000"]);
    let line = process.line("so HTTP has at most ");
    assert!(line.contains("open 256 files") && line.contains("ulimit -Hn"), "{line}");
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let kept = connect(http);
    assert!((10..200).contains(&kept), "{kept}");
    process.signal("TERM");
    process.line("the server has ended");
    assert!(!process.seen.contains("gives no connection"), "{}", process.seen);
}

#[test]
fn the_command_says_which_limits_and_hosts_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    for (options, words) in [
        (&["--allow-host", "http://a"][..], "--allow-host: `http://a` is not a host"),
        (&["--max-bytes-in-flight", "1000"], "must be at least --http-max-input-size"),
        (&["--max-bytes-in-flight-per-client", "1000"], "must be at least --http-max-input-size"),
    ] {
        let mut process = Process::start(folder.path(), options);
        process.line(words);
        assert_eq!(process.wait().code(), Some(1));
    }
    let mut process = Process::start(folder.path(), &["--allow-host", "models.example"]);
    let http = process.address("HTTP at ");
    let of = |host: &str| {
        let request = format!("GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        Answer::read(&mut send(http, request.as_bytes())).status
    };
    assert_eq!(
        (of("models.example:80"), of("evil.example"), of(&http.to_string())),
        (200, 421, 200)
    );
}

//! Limits, clients that go away, and the end of a server.

mod common;

use common::{Answer, ECHO, FLOATS, Site, blocks, floats, head, until, whole};
use hydrozoa_server::Control;
use hydrozoa_server::http::{Address, Limits, Listener};
use serde_json::json;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const INFER: &str = "/v2/models/m/infer";

/// The head of a client that asks before it sends.
fn asking(head: &str) -> String {
    head.replacen("\r\n", "\r\nExpect: 100-continue\r\n", 1)
}

fn request(count: usize) -> String {
    floats(&[1, count as i64], &vec![0.0; count]).to_string()
}

/// Waits for the client to go away, or for as many seconds as the request says.
const SLEEPS: &str = "
import time

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, 'IN')
            end = time.monotonic() + float(tensor.as_numpy()[0][0])
            open(pb_utils.get_model_dir() + '/began', 'w').close()
            while time.monotonic() < end and not request.is_cancelled():
                time.sleep(0.01)
            if request.is_cancelled():
                open(pb_utils.get_model_dir() + '/cancelled', 'w').close()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', tensor.as_numpy())]))
        return responses
";

/// A whole request that takes so long.
fn sleep(seconds: f32) -> String {
    whole("/v2/models/sleeps/infer", &floats(&[1, 1], &[seconds]).to_string())
}

fn wait_for(site: &Site, file: &str) {
    let path = site.path().join("sleeps/1").join(file);
    until(file, || path.exists());
}

#[test]
fn a_request_is_as_large_as_it_may_be() {
    let mut limits = Limits::default();
    limits.max_input_size = 1000;
    let site = Site::with(limits, |_| {});
    site.model("m", FLOATS, ECHO);
    site.post(INFER, request(100)).ok();
    let message = site.post(INFER, request(300)).error(413);
    assert!(message.contains("--http-max-input-size"), "{message}");
    // Of a body in chunks the size is not known before.
    let body = request(300);
    let chunked = format!(
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let answer = Answer::of(&site.raw(chunked.as_bytes())).unwrap();
    assert!(answer.error(413).contains("1000 bytes"));
    // It is small before decompression, and elements in JSON may be smaller than those of the type.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(request(5000).as_bytes()).unwrap();
    let headers = [("Content-Encoding", "gzip")];
    let answer = site.request("POST", INFER, &headers, &gzip.finish().unwrap());
    assert!(answer.error(413).contains("decompressed"));
    let zeros = "0,".repeat(299);
    let body = format!(
        "{{\"inputs\":[{{\"name\":\"IN\",\"datatype\":\"FP32\",\"shape\":[1,300],\"data\":[{zeros}0]}}]}}"
    );
    assert!(site.post(INFER, body).error(413).contains("byte_size (1200 bytes)"));
    site.post(INFER, request(100)).ok();
}

#[test]
fn who_sends_all_before_it_reads_hears_what_is_wrong() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let large = vec![b' '; 48 << 20];
    assert!(site.post("/v2/models/absent/infer", &large).error(404).contains("absent"));
    assert!(site.post(INFER, &large).error(400).contains("failed to parse"));
    let huge = vec![b' '; 65 << 20];
    let mut connection = site.send(head(INFER, huge.len()));
    connection.write_all(&huge).unwrap();
    assert!(Answer::read(&mut connection).error(413).contains("--http-max-input-size"));
    // A client that asks before it sends is told at once.
    let head = head("/v2/models/absent/infer", huge.len());
    let mut connection = site.send(asking(&head));
    let began = Instant::now();
    assert!(Answer::read(&mut connection).error(404).contains("absent"));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn headers_are_as_long_and_take_as_long_as_they_may() {
    let mut limits = Limits::default();
    limits.max_header_size = 8 << 10;
    limits.header_timeout = Duration::from_millis(300);
    limits.body_timeout = Duration::from_millis(300);
    let site = Site::with(limits, |_| {});
    site.model("m", FLOATS, ECHO);
    let long = "x".repeat(20_000);
    assert_eq!(site.request("GET", "/v2", &[("X", &long)], b"").status, 431);
    let many = "A: b\r\n".repeat(200);
    let answer = site.raw(format!("GET /v2 HTTP/1.1\r\n{many}\r\n").as_bytes());
    assert_eq!(Answer::of(&answer).unwrap().status, 431);
    for half in ["", "GET /v2 HT", "GET /v2 HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut connection = site.send(half);
        let began = Instant::now();
        let mut rest = Vec::new();
        // The server may reset the connection.
        drop(connection.read_to_end(&mut rest));
        assert!(began.elapsed() < Duration::from_secs(20), "{half:?}");
    }
    let mut connection = site.send(head(INFER, 100) + "{");
    let answer = Answer::read(&mut connection);
    assert!(answer.error(408).contains("not come in time"));
    assert_eq!(site.get("/v2/health/live").status, 200);
}

#[test]
fn a_client_that_does_not_read_its_response_is_not_waited_for() {
    let mut limits = Limits::default();
    limits.write_timeout = Duration::from_millis(300);
    limits.max_connections = 1;
    let site = Site::with(limits, |_| {});
    let code = "
class TritonPythonModel:
    def execute(self, requests):
        large = np.zeros((1, 8 << 20), np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', large)]) for _ in requests]
";
    site.model("m", FLOATS, code);
    let mut body: serde_json::Value = serde_json::from_str(&request(1)).unwrap();
    body["parameters"] = json!({ "binary_data_output": true });
    let mut connection = site.send(whole(INFER, &body.to_string()));
    let model = site.service.server().model("m", None).unwrap();
    until("the model's request", || model.statistics().executions > 0);
    until("a free place", || site.get("/v2").status != 503);
    let mut answer = Vec::new();
    drop(connection.read_to_end(&mut answer));
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && answer.len() < 32 << 20, "{}", answer.len());
}

#[test]
fn there_are_as_many_requests_under_way_as_there_may_be() {
    let site = Site::with(Limits::default(), |settings| settings.max_requests = 1);
    site.model("sleeps", FLOATS, SLEEPS);
    let mut first = site.send(sleep(1.0));
    wait_for(&site, "began");
    let second = site.post("/v2/models/sleeps/infer", request(1));
    assert!(second.error(503).contains("1 requests under way"));
    assert_eq!(second.header("retry-after"), Some("1"));
    // A health check does not count as such a request.
    assert_eq!(site.get("/v2/health/ready").status, 200);
    let mut answer = [0; 15];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    site.post("/v2/models/sleeps/infer", request(1)).ok();
}

/// Asks for health on a connection that stays.
const ASK: &[u8] = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn is_answered(connection: &mut std::net::TcpStream) -> bool {
    let mut answer = [0; 15];
    connection.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 200 OK"
}

#[test]
fn a_connection_that_waits_for_its_client_is_closed_for_the_next() {
    let mut limits = Limits::default();
    limits.max_connections = 3;
    limits.max_connections_per_client = Some(3);
    let site = Site::with(limits, |_| {});
    site.model("m", FLOATS, ECHO);
    let mut slow = site.send(asking(&head(INFER, 100)));
    let mut told = [0; 25];
    slow.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    slow.write_all(b"{").unwrap();
    // It waits since it was asked to go on, and this one since it was answered.
    let mut second = site.send(ASK);
    assert!(is_answered(&mut second));
    let mut silent = site.connect();
    let mut third = site.send(ASK);
    assert!(is_answered(&mut third));
    let mut read = Vec::new();
    drop(slow.read_to_end(&mut read));
    assert!(read.is_empty(), "the oldest one is closed: {}", String::from_utf8_lossy(&read));
    second.write_all(ASK).unwrap();
    let mut rest = vec![0; 200];
    // The rest of the first answer, and some of the second.
    while !rest.windows(15).any(|window| window == b"HTTP/1.1 200 OK") {
        assert!(second.read(&mut rest).unwrap() > 0);
    }
    let mut fourth = site.send(ASK);
    assert!(is_answered(&mut fourth));
    assert_eq!(silent.read(&mut [0]).unwrap_or_default(), 0, "then the one that says nothing");
}

#[test]
fn health_is_told_where_all_connections_have_requests() {
    let mut limits = Limits::default();
    limits.max_connections = 1;
    let site = Site::with(limits, |_| {});
    site.model("sleeps", FLOATS, SLEEPS);
    let mut busy = site.send(sleep(3.0));
    wait_for(&site, "began");
    assert_eq!(site.get("/v2/health/live").status, 200);
    assert_eq!(site.get("/v2/health/ready").status, 200);
    let other = site.get("/v2");
    assert!(other.error(503).contains("as many connections as it may"));
    assert_eq!(other.header("retry-after"), Some("1"));
    assert!(is_answered(&mut busy), "a request that is under way is not given up");
}

#[test]
fn bytes_of_requests_are_bounded_for_all_and_for_each_client() {
    let site = Site::with(Limits::default(), |settings| {
        settings.max_bytes_in_flight = 4 << 20;
        settings.max_bytes_in_flight_per_client = 3 << 20;
    });
    site.model("m", FLOATS, ECHO);
    site.model("sleeps", FLOATS, SLEEPS);
    let held = || {
        let text = String::from_utf8(site.get("/metrics").body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("hydrozoa_request_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let holds = |bytes: usize| until("so many bytes", || held() == bytes);
    let size = 1 << 20;
    let mut body = request(1).into_bytes();
    body.resize(size, b' ');
    let mut waiting: Vec<_> = (0..2)
        .map(|_| {
            let mut connection = site.send(head(INFER, size));
            connection.write_all(&body[..size - 10]).unwrap();
            connection
        })
        .collect();
    holds(2 * (size - 10));
    let refused = site.post(INFER, vec![b' '; 2 << 20]);
    assert!(refused.error(429).contains("--max-bytes-in-flight-per-client"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // It would never fit, so there is no later.
    let larger = site.post(INFER, vec![b' '; 5 << 20]).error(413);
    assert!(larger.contains("--max-bytes-in-flight"));
    // Nor does what comes of few bytes.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 16 << 20]).unwrap();
    let gzip = gzip.finish().unwrap();
    let answer = site.request("POST", INFER, &[("Content-Encoding", "GZIP")], &gzip);
    assert!(matches!(answer.status, 413 | 429), "{answer:?}");
    // A small request is served beside them. They are served once they are whole.
    site.post(INFER, request(1)).ok();
    for connection in &mut waiting {
        connection.write_all(&body[size - 10..]).unwrap();
        Answer::read(connection).ok();
    }
    holds(0);
    // A request holds its bytes until it is answered.
    let busy = site.send(sleep(60.0));
    wait_for(&site, "began");
    assert!(held() > 0);
    drop(busy);
    holds(0);
}

#[test]
fn a_body_that_comes_too_slowly_is_not_waited_for() {
    let mut limits = Limits::default();
    (limits.min_body_rate, limits.body_patience) = (100_000, Duration::from_millis(300));
    let site = Site::with(limits, |_| {});
    site.model("m", FLOATS, ECHO);
    let mut connection = site.send(head(INFER, 2_000_000));
    connection.write_all(&vec![b' '; 1_999_990]).unwrap();
    let began = Instant::now();
    assert!(Answer::read(&mut connection).error(408).contains("comes too slowly"));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_length_that_is_too_large_is_told_at_once() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let began = Instant::now();
    let mut connection = site.send(head(INFER, 100_000_000));
    let mut answer = vec![0; 12];
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn there_are_so_many_headers_of_so_many_bytes() {
    let site = Site::new();
    let ask = |headers: &str| {
        let request =
            format!("GET /v2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        Answer::of(&site.raw(request.as_bytes())).unwrap().status
    };
    assert_eq!(ask(&format!("X: {}\r\n", "x".repeat(64_000))), 200);
    assert_eq!(ask(&format!("X: {}\r\n", "x".repeat(66_000))), 431);
    assert_eq!(ask(&format!("X: {}\r\n", "x".repeat(100_000))), 431);
    assert_eq!(ask(&"X: y\r\n".repeat(98)), 200);
    assert_eq!(ask(&"X: y\r\n".repeat(99)), 431);
}

#[test]
fn a_client_that_closes_its_connection_cancels_its_request() {
    let site = Site::new();
    site.model("sleeps", FLOATS, SLEEPS);
    let connection = site.send(sleep(60.0));
    wait_for(&site, "began");
    drop(connection);
    wait_for(&site, "cancelled");
}

#[test]
fn a_server_that_ends_answers_who_waits_and_nobody_else() {
    let mut site = Site::new();
    site.model("sleeps", FLOATS, SLEEPS);
    let idle = site.connect();
    let mut busy = site.send(sleep(1.0));
    wait_for(&site, "began");
    site.service.close();
    assert_eq!(site.end(Duration::from_secs(30)), 0);
    let answer = Answer::read(&mut busy);
    assert_eq!(answer.ok()["outputs"][0]["data"], json!([1.0]));
    let mut idle = idle;
    assert_eq!(idle.read(&mut [0]).unwrap_or_default(), 0);
    assert!(std::net::TcpStream::connect(site.address).is_err());
}

#[test]
fn a_server_that_ends_waits_for_no_request_longer_than_it_should() {
    let mut site = Site::new();
    site.model("sleeps", FLOATS, SLEEPS);
    let _busy = site.send(sleep(60.0));
    wait_for(&site, "began");
    let began = Instant::now();
    assert_eq!(site.end(Duration::from_millis(200)), 1);
    assert!(began.elapsed() < Duration::from_secs(20));
    wait_for(&site, "cancelled");
}

#[test]
fn a_server_that_ends_waits_for_no_half_of_a_head() {
    let mut site = Site::new();
    let halves: Vec<_> = (0..50).map(|_| site.send("GET /v2/health/live HTTP/1.1\r\nHo")).collect();
    assert_eq!(site.get("/v2/health/live").status, 200);
    let began = Instant::now();
    assert_eq!(site.end(Duration::from_secs(40)), 0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(halves);
}

#[test]
fn a_loading_server_is_alive_and_not_ready() {
    let site = Site::with(Limits::default(), |settings| settings.control = Control::Clients);
    site.service.close();
    assert_eq!(
        (site.get("/v2/health/live").status, site.get("/v2/health/ready").status),
        (200, 400)
    );
    site.service.open();
    assert_eq!(site.get("/v2/health/ready").status, 200);
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // Its file stays, as after a crash.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = Address::Unix(path.clone());
    let listener = runtime.block_on(Listener::bind(&address)).unwrap();
    assert!(runtime.block_on(Listener::bind(&address)).is_err(), "somebody listens");
    drop(listener);
    assert!(!path.exists());
    assert_eq!(address.to_string(), format!("unix:{}", path.display()));
    assert_eq!(Address::Tcp("::1".into(), 80).to_string(), "[::1]:80");
}

#[test]
fn a_stuck_instance_makes_its_model_and_the_server_unready_until_it_is_replaced() {
    let site = Site::new();
    site.model("healthy", FLOATS, ECHO);
    let gate = site.path().join("gate");
    let (config, model) = blocks(&gate);
    site.model("blocks", &config, &model);
    site.get("/v2/health/ready").ok();
    let began = Instant::now();
    let words = site.post("/v2/models/blocks/infer", request(1)).error(500);
    assert!(words.contains("does not react to the interrupt"), "{words}");
    let words = site.get("/v2/models/blocks/ready").error(400);
    let elapsed = began.elapsed();
    assert!(words.contains("`execute` of model 'blocks'") || words.contains("not yet"), "{words}");
    assert!(elapsed < Duration::from_millis(1300), "{elapsed:?} behind a limit of 200 ms");
    site.get("/v2/models/blocks/versions/1/ready").error(400);
    assert_eq!(site.get("/v2/health/ready").status, 400);
    let index = site.post("/v2/repository/index", "").json();
    let state = |name: &str| {
        let all = index.as_array().unwrap().iter();
        all.clone().find(|model| model["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!((state("blocks"), state("healthy")), ("UNAVAILABLE".into(), "READY".into()));
    site.get("/v2/models/healthy/ready").ok();
    site.post("/v2/models/healthy/infer", request(1)).ok();
    std::fs::remove_file(&gate).unwrap();
    until("readiness", || site.get("/v2/health/ready").status == 200);
    site.get("/v2/models/blocks/ready").ok();
}

#[test]
fn a_model_is_asked_whether_it_is_ready() {
    let site = Site::new();
    let model = |answer: &str| {
        format!(
            "
class TritonPythonModel:
    def execute(self, requests):
        return []

    def is_ready(self):
        return {answer}
"
        )
    };
    site.model("yes", FLOATS, &model("True"));
    site.model("no", FLOATS, &model("False"));
    site.get("/v2/models/yes/ready").ok();
    let words = site.get("/v2/models/no/ready").error(400);
    assert_eq!(words, "instance 'no_0_0' of model 'no': its is_ready says no");
    // The server does not ask for its own readiness.
    site.get("/v2/health/ready").ok();
}

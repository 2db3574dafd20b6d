//! Limits, clients that go away, and the end of a server.

mod common;

use common::{Answer, ECHO, FLOATS, Site};
use hydrozoa_server::Control;
use hydrozoa_server::http::{Address, Limits, Listener};
use serde_json::json;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

fn request(count: usize) -> String {
    let data = vec![0.0; count];
    json!({ "inputs": [{ "name": "IN", "datatype": "FP32", "shape": [1, count], "data": data }] })
        .to_string()
}

/// Waits for the client to go away, or for as many seconds as the request says.
const SLEEPS: &str = "
import time
import triton_python_backend_utils as pb_utils

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
fn sleep(seconds: f32) -> Vec<u8> {
    let body = json!({ "inputs": [{ "name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [seconds] }] });
    let body = body.to_string();
    let length = body.len();
    format!("POST /v2/models/sleeps/infer HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn wait_for(site: &Site, file: &str) {
    let path = site.path().join("sleeps/1").join(file);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{file}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_request_is_as_large_as_it_may_be() {
    let mut limits = Limits::default();
    limits.max_input_size = 1000;
    let site = Site::with(limits, |_| {});
    site.model("m", FLOATS, ECHO);
    site.post("/v2/models/m/infer", request(100)).ok();
    let message = site.post("/v2/models/m/infer", request(300)).error(413);
    assert!(message.contains("--http-max-input-size"), "{message}");
    // Of a body in chunks the size is not known before.
    let body = request(300);
    let chunked = format!(
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let answer = Answer::of(&site.raw(chunked.as_bytes())).unwrap();
    assert!(answer.error(413).contains("1000 bytes"));
    // It is small before decompression, and elements in JSON may be smaller than those of the type.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(request(5000).as_bytes()).unwrap();
    let headers = [("Content-Encoding", "gzip")];
    let answer = site.request("POST", "/v2/models/m/infer", &headers, &gzip.finish().unwrap());
    assert!(answer.error(413).contains("decompressed"));
    let zeros = "0,".repeat(299);
    let body = format!(
        "{{\"inputs\":[{{\"name\":\"IN\",\"datatype\":\"FP32\",\"shape\":[1,300],\"data\":[{zeros}0]}}]}}"
    );
    assert!(site.post("/v2/models/m/infer", body).error(413).contains("byte_size (1200 bytes)"));
    site.post("/v2/models/m/infer", request(100)).ok();
}

#[test]
fn who_sends_all_before_it_reads_hears_what_is_wrong() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let large = vec![b' '; 48 << 20];
    assert!(site.post("/v2/models/absent/infer", &large).error(404).contains("absent"));
    assert!(site.post("/v2/models/m/infer", &large).error(400).contains("failed to parse"));
    let huge = vec![b' '; 65 << 20];
    let mut connection = site.connect();
    let length = huge.len();
    let head = format!(
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(&huge).unwrap();
    assert!(Answer::read(&mut connection).error(413).contains("--http-max-input-size"));
    // A client that asks before it sends is told at once.
    let mut connection = site.connect();
    let head = format!(
        "POST /v2/models/absent/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).unwrap();
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
    for half in ["", "GET /v2 HT", "GET /v2 HTTP/1.1\r\nHost: x\r\n"] {
        let mut connection = site.connect();
        connection.write_all(half.as_bytes()).unwrap();
        let began = Instant::now();
        let mut rest = Vec::new();
        // The server may reset the connection.
        drop(connection.read_to_end(&mut rest));
        assert!(began.elapsed() < Duration::from_secs(20), "{half:?}");
    }
    let mut connection = site.connect();
    let half = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    connection.write_all(half).unwrap();
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
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        large = np.zeros((1, 8 << 20), np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', large)]) for _ in requests]
";
    site.model("m", FLOATS, code);
    let mut body: serde_json::Value = serde_json::from_str(&request(1)).unwrap();
    body["parameters"] = json!({ "binary_data_output": true });
    let body = body.to_string();
    let mut connection = site.connect();
    let length = body.len();
    let head =
        format!("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    // The only place is free again.
    assert_eq!(site.get("/v2/health/live").status, 200);
    let mut answer = Vec::new();
    drop(connection.read_to_end(&mut answer));
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && answer.len() < 32 << 20, "{}", answer.len());
}

#[test]
fn there_are_as_many_requests_under_way_as_there_may_be() {
    let site = Site::with(Limits::default(), |settings| settings.max_requests = 1);
    site.model("sleeps", FLOATS, SLEEPS);
    let mut first = site.connect();
    first.write_all(&sleep(1.0)).unwrap();
    wait_for(&site, "began");
    let second = site.post("/v2/models/sleeps/infer", request(1));
    assert!(second.error(503).contains("1 requests under way"));
    assert_eq!(second.header("retry-after"), Some("1"));
    // Who asks for health is no such request.
    assert_eq!(site.get("/v2/health/ready").status, 200);
    let mut answer = [0; 15];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    site.post("/v2/models/sleeps/infer", request(1)).ok();
}

#[test]
fn connections_wait_while_there_are_as_many_as_there_may_be() {
    let mut limits = Limits::default();
    limits.max_connections = 1;
    let site = Site::with(limits, |_| {});
    let mut first = site.connect();
    first.write_all(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut start = [0; 15];
    first.read_exact(&mut start).unwrap();
    let mut second = site.connect();
    second
        .write_all(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    second.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(second.read(&mut [0]).is_err());
    drop(first);
    second.set_read_timeout(Some(common::PATIENCE)).unwrap();
    assert_eq!(Answer::read(&mut second).status, 200);
}

#[test]
fn a_client_that_closes_its_connection_cancels_its_request() {
    let site = Site::new();
    site.model("sleeps", FLOATS, SLEEPS);
    let mut connection = site.connect();
    connection.write_all(&sleep(60.0)).unwrap();
    wait_for(&site, "began");
    drop(connection);
    wait_for(&site, "cancelled");
}

#[test]
fn a_server_that_ends_answers_who_waits_and_nobody_else() {
    let mut site = Site::new();
    site.model("sleeps", FLOATS, SLEEPS);
    let idle = site.connect();
    let mut busy = site.connect();
    busy.write_all(&sleep(1.0)).unwrap();
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
    let mut busy = site.connect();
    busy.write_all(&sleep(60.0)).unwrap();
    wait_for(&site, "began");
    let began = Instant::now();
    assert_eq!(site.end(Duration::from_millis(200)), 1);
    assert!(began.elapsed() < Duration::from_secs(20));
    wait_for(&site, "cancelled");
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
    // Blocks in C once. Another instance cannot be initialized while there is a gate.
    let blocks = format!(
        "
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        if os.path.exists({gate:?}):
            raise RuntimeError('not yet')

    def execute(self, requests):
        open({gate:?}, 'w').close()
        time.sleep(20)
"
    );
    let limit = "parameters { key: \"HYDROZOA_EXECUTION_LIMIT\" value { string_value: \"0.2\" } }";
    site.model("blocks", &format!("{FLOATS}{limit}"), &blocks);
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
    while site.get("/v2/health/ready").status != 200 {
        assert!(began.elapsed() < common::PATIENCE, "it does not become ready again");
        std::thread::sleep(Duration::from_millis(20));
    }
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

//! Requests that chance makes wrong: each is told so, or its connection ends, and the server goes on.
//!
//! `HYDROZOA_TEST_MALFORMED` is the number of requests, 400 if it is not set; `HYDROZOA_TEST_SEED` is the first seed. A failure
//! names the seed of its request.

mod common;

use common::{Answer, ECHO, FLOATS, Site};
use hydrozoa_server::http::Limits;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A number of the environment.
fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => default,
    }
}

/// The same seed gives the same request.
struct Random(fastrand::Rng);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A request before anything is wrong with it.
struct Right {
    path: &'static str,
    json: Value,
    /// The bytes behind the JSON.
    data: Vec<u8>,
}

fn right(random: &mut Random) -> Right {
    let json = |input: Value| {
        json!({
            "id": "1",
            "parameters": { "priority": 0, "sequence_id": 7, "own": "x", "binary_data_output": false },
            "inputs": [input],
            "outputs": [{ "name": "OUT", "parameters": { "binary_data": true, "classification": 0 } }],
        })
    };
    let input = json!({ "name": "IN", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0] });
    let infer = "/v2/models/m/infer";
    match random.below(6) {
        0 | 1 => Right { path: infer, json: json(input), data: Vec::new() },
        2 | 3 => {
            let size = json!({ "binary_data_size": 8 });
            let input =
                json!({ "name": "IN", "datatype": "FP32", "shape": [1, 2], "parameters": size });
            Right { path: infer, json: json(input), data: vec![0, 0, 128, 63, 0, 0, 0, 64] }
        }
        4 => {
            let json = json!({ "IN": [1.0, 2.0], "parameters": { "own": 1 }, "id": "x" });
            Right { path: "/v2/models/m/generate", json, data: Vec::new() }
        }
        _ => {
            let json = json!({ "key": "/hydrozoa_mutated", "offset": 0, "byte_size": 64 });
            let path = "/v2/systemsharedmemory/region/r/register";
            Right { path, json, data: Vec::new() }
        }
    }
}

/// A value to put where something else should stand.
fn other(random: &mut Random) -> Value {
    const EDGES: [i64; 12] =
        [0, 1, -1, 2, 3, 8, 1 << 31, (1 << 32) - 1, 1 << 61, 1 << 62, i64::MAX, i64::MIN];
    match random.below(14) {
        0 => Value::Null,
        1 => json!(random.one_in(2)),
        2..=5 => json!(EDGES[random.below(EDGES.len())]),
        6 => json!(u64::MAX),
        7 => json!(f64::from_bits(random.next()).clamp(-1e300, 1e300)),
        8 => json!("x".repeat(random.below(300))),
        9 => json!(["\u{0}", "\u{ffff}", "BYTES", "FP16", "IN", "OUT", "r"][random.below(7)]),
        10 => json!([]),
        11 => {
            let depth = [1, 50, 99, 100, 101, 126, 127][random.below(7)];
            (0..depth).fold(json!(1), |inner, _| json!([inner]))
        }
        12 => json!({ "shared_memory_region": "r", "shared_memory_byte_size": random.next() }),
        _ => Value::Array((0..random.below(40)).map(|number| json!(number)).collect()),
    }
}

/// Changes one of the places within a value.
fn change(value: &mut Value, random: &mut Random) {
    let is_deeper = !random.one_in(4);
    match value {
        Value::Array(elements) if is_deeper && !elements.is_empty() => {
            let place = random.below(elements.len());
            match random.below(5) {
                0 => drop(elements.remove(place)),
                1 => elements.insert(place, other(random)),
                _ => change(&mut elements[place], random),
            }
        }
        Value::Object(fields) if is_deeper && !fields.is_empty() => change_field(fields, random),
        value => *value = other(random),
    }
}

fn change_field(fields: &mut Map<String, Value>, random: &mut Random) {
    let place = random.below(fields.len());
    let name = fields.keys().nth(place).unwrap().clone();
    match random.below(8) {
        0 => drop(fields.remove(&name)),
        1 => {
            let value = fields.remove(&name).unwrap();
            let names = ["", "data", "shape", "name", "parameters", "inputs", "triton_x"];
            fields.insert(names[random.below(names.len())].to_owned(), value);
        }
        _ => change(fields.get_mut(&name).unwrap(), random),
    }
}

/// Changes some bytes.
fn scramble(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let place = random.below(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, random.next() as u8),
            2 if !bytes.is_empty() => drop(bytes.remove(place)),
            3 => {
                let end = (place + 1 + random.below(30)).min(bytes.len());
                let again = bytes[place..end].to_vec();
                bytes.splice(place..place, again);
            }
            4 => {
                let digits =
                    ["99999999999999999999", "-1", "1e999", "0x1", "\r\n", "}", "[[[[", "\\u"];
                let text = digits[random.below(digits.len())].bytes();
                bytes.splice(place..place, text);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
}

/// A body in chunks, some of which may be odd.
fn chunked(body: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(1 + random.below(rest.len()));
        rest = more;
        let size = match random.below(30) {
            0 => format!("{:x}", piece.len() + 1 + random.below(100)),
            1 => format!("{:x}", random.next()),
            2 => ["", "-1", "0x5", "zz", "5 ;x", "00000000000000000000005"][random.below(6)]
                .to_owned(),
            3 => format!("{:X};name=\"value\"", piece.len()),
            _ => format!("{:x}", piece.len()),
        };
        out.extend_from_slice(format!("{size}\r\n").as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(if random.one_in(30) { b"\n" } else { b"\r\n" });
    }
    if !random.one_in(20) {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    out
}

/// A number of a header, which may be another one.
fn claimed(right: usize, random: &mut Random) -> String {
    match random.below(12) {
        0 => (right + 1 + random.below(50)).to_string(),
        1 => right.saturating_sub(1 + random.below(50)).to_string(),
        2 => ["-1", "", "x", "0x8", "1.5", "18446744073709551616", "9223372036854775807", "+8"]
            [random.below(8)]
        .to_owned(),
        3 => random.next().to_string(),
        _ => right.to_string(),
    }
}

/// A request as it is sent.
fn request(seed: u64) -> Vec<u8> {
    let mut random = Random(fastrand::Rng::with_seed(seed));
    let Right { path, mut json, data } = right(&mut random);
    let kind = random.below(4);
    if kind != 0 {
        (0..=random.below(3)).for_each(|_| change(&mut json, &mut random));
    }
    let mut text = json.to_string().into_bytes();
    if kind == 0 || random.one_in(6) {
        scramble(&mut text, &mut random);
    }
    let length = text.len();
    let mut body = [text, data].concat();
    if random.one_in(10) {
        scramble(&mut body, &mut random);
    }
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if length < body.len() || random.one_in(12) {
        let claim = claimed(length, &mut random);
        head.push_str(&format!("Inference-Header-Content-Length: {claim}\r\n"));
    }
    if random.one_in(15) {
        let encodings = ["gzip", "deflate", "br", "identity", "gzip, gzip", "\u{1}"];
        let encoding = encodings[random.below(encodings.len())];
        head.push_str(&format!("Content-Encoding: {encoding}\r\n"));
    }
    let body = if random.one_in(4) {
        head.push_str("Transfer-Encoding: chunked\r\n");
        chunked(&body, &mut random)
    } else {
        let size = body.len();
        head.push_str(&format!("Content-Length: {}\r\n", claimed(size, &mut random)));
        body
    };
    let mut head = format!("{head}\r\n").into_bytes();
    if random.one_in(25) {
        scramble(&mut head, &mut random);
    }
    [head, body].concat()
}

/// How a request has ended: its status, or 0 if its connection was closed.
fn outcome(answer: &[u8], seed: u64) -> u16 {
    if answer.is_empty() {
        return 0;
    }
    let printed = String::from_utf8_lossy(answer);
    let answer = Answer::of(answer).unwrap_or_else(|| panic!("seed {seed}: {printed}"));
    assert!(matches!(answer.status, 200 | 400..=499), "seed {seed}: {printed}");
    // Bytes that are not HTTP get a status without words.
    if answer.status >= 400 && answer.header("content-type").is_some() {
        let words = answer.error(answer.status);
        assert!(!words.is_empty(), "seed {seed}: {printed}");
    }
    answer.status
}

#[test]
fn what_chance_makes_wrong_is_told_and_the_server_goes_on() {
    let count = variable("HYDROZOA_TEST_MALFORMED", 400);
    let first = variable("HYDROZOA_TEST_SEED", 1);
    let mut limits = Limits::default();
    let pause = Duration::from_millis(200);
    (limits.header_timeout, limits.body_timeout) = (pause, pause);
    let site = Site::with(limits, |settings| settings.client_shared_memory = true);
    site.model("m", FLOATS, ECHO);
    let next = AtomicU64::new(0);
    let outcomes = Mutex::new(BTreeMap::<u16, u64>::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let seed = first + number;
                    let status = outcome(&site.raw(&request(seed)), seed);
                    *outcomes.lock().unwrap().entry(status).or_default() += 1;
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    println!("{count} requests, by status: {outcomes:?}");
    let told: u64 = outcomes.range(400..).map(|(_, count)| count).sum();
    // Some changes make another request that makes sense, and some end the connection.
    assert!(told > count / 2, "{outcomes:?}");
    let whole = json!({
        "inputs": [{ "name": "IN", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0] }],
    });
    let answer = site.post("/v2/models/m/infer", whole.to_string());
    assert_eq!(answer.ok()["outputs"][0]["data"], json!([1.0, 2.0]));
    assert!(site.service.server().is_ready("m", ""));
}

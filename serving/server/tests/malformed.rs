//! Requests that are wrong in many ways: each gets an error, none of them the server's, and the server goes on.

mod common;

use common::{Answer, ECHO, FLOATS, Site};
use hydrozoa_server::Control;
use hydrozoa_server::http::Limits;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::Duration;

/// The right request, in JSON.
fn right() -> Value {
    json!({
        "id": "1",
        "parameters": { "priority": 0 },
        "inputs": [{ "name": "IN", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0] }],
        "outputs": [{ "name": "OUT", "parameters": { "binary_data": false } }],
    })
}

/// The right request, with binary data.
fn binary() -> (Value, Vec<u8>) {
    let mut head = right();
    let input = json!({ "name": "IN", "datatype": "FP32", "shape": [1, 2], "parameters": { "binary_data_size": 8 } });
    head["inputs"] = json!([input]);
    (head, [1.0f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// Values to put where something else should stand.
fn wrong() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!("text"),
        json!("\u{0}\u{ffff}"),
        json!([]),
        json!([null]),
        json!([[1], 2, {}]),
        json!({}),
        json!({ "name": 1 }),
    ]
}

/// The places of a request where something wrong can stand.
const PLACES: [&str; 14] = [
    "",
    "/id",
    "/parameters",
    "/parameters/priority",
    "/inputs",
    "/inputs/0",
    "/inputs/0/name",
    "/inputs/0/datatype",
    "/inputs/0/shape",
    "/inputs/0/shape/1",
    "/inputs/0/data",
    "/inputs/0/data/1",
    "/outputs/0",
    "/outputs/0/parameters/binary_data",
];

/// Requests whose JSON has something wrong in it.
fn replaced() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for place in PLACES {
        for wrong in wrong() {
            let mut request = right();
            *request.pointer_mut(place).unwrap() = wrong;
            bodies.push(request.to_string().into_bytes());
        }
    }
    bodies
}

fn handmade() -> Vec<Vec<u8>> {
    let deep = |depth: usize| {
        let data = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        right().to_string().replace("[1.0,2.0]", &data)
    };
    let open = "[".repeat(200_000);
    let with = |from: &str, to: &str| right().to_string().replace(from, to);
    let shapes = [
        "[]",
        "[-1,2]",
        "[1,9223372036854775808]",
        "[9223372036854775807,9223372036854775807]",
        "[1,2.0]",
    ];
    let mut bodies: Vec<String> = shapes.iter().map(|shape| with("[1,2]", shape)).collect();
    bodies.extend([deep(99), deep(101), deep(127), deep(129), deep(100_000)]);
    bodies.extend([open, "{\"a\":".repeat(100_000), "{\"inputs\":".repeat(200)]);
    bodies.push(with("[1.0,2.0]", "[NaN,Infinity]"));
    bodies.push(with("[1.0,2.0]", "[1e999,2]"));
    bodies.push(with("\"id\":\"1\"", "\"id\":\"\\ud800\""));
    bodies.push(with("\"id\":\"1\"", "\"id\":\"1\",\"id\":\"2\""));
    bodies.push(with("\"data\":", "\"data\":[1],\"data\":"));
    bodies.push(format!("{{\"inputs\":[{}{{}}]}}", "{},".repeat(100_000)));
    let many: Vec<_> = (0..5000).map(|number| format!("\"p{number}\":1")).collect();
    bodies.push(format!("{{\"parameters\":{{{}}},\"inputs\":[]}}", many.join(",")));
    bodies.push(with("\"binary_data\":false", "\"shared_memory_region\":\"r\""));
    bodies.push(with("\"binary_data\":false", "\"classification\":-1"));
    bodies.push(with("\"data\":", "\"parameters\":{\"shared_memory_region\":\"r\"},\"no\":"));
    bodies.push(with("\"data\":", "\"parameters\":{\"binary_data_size\":8},\"no\":"));
    bodies.push(with("\"data\":", "\"parameters\":{\"binary_data_size\":8},\"data\":"));
    bodies.push(with("FP32", "FP16"));
    bodies.push(with("FP32", "TYPE_FP32"));
    let mut bodies: Vec<Vec<u8>> = bodies.into_iter().map(String::into_bytes).collect();
    bodies.extend([vec![], b"\xff\xfe".to_vec(), vec![0; 1000], b"{} {}".to_vec()]);
    bodies
}

/// Sizes that a client may claim.
fn claims() -> Vec<Value> {
    let sizes =
        [json!(0), json!(7), json!(9), json!(1u64 << 31), json!(1u64 << 40), json!(u64::MAX)];
    let others = [json!(-8), json!("8"), json!(8.5), json!(null), json!([8])];
    sizes.into_iter().chain(others).collect()
}

/// The status of each of these requests is a client's fault, or says that nothing is wrong.
#[track_caller]
fn is_told(answer: &[u8], form: &str) -> u16 {
    let answer = Answer::of(answer)
        .unwrap_or_else(|| panic!("{form}: no answer: {:?}", String::from_utf8_lossy(answer)));
    assert!(matches!(answer.status, 200 | 400..=499), "{form}: {answer:?}");
    if answer.status >= 400 && answer.header("content-type").is_some() {
        assert!(!answer.error(answer.status).is_empty(), "{form}");
    }
    answer.status
}

fn head(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

const INFER: &str = "/v2/models/m/infer";

/// A server that waits for no client long.
fn site() -> Site {
    let mut limits = Limits::default();
    (limits.header_timeout, limits.body_timeout) = (PAUSE, PAUSE);
    let site = Site::with(limits, |settings| settings.control = Control::Clients);
    site.model("m", FLOATS, ECHO);
    site
}

const PAUSE: Duration = Duration::from_millis(500);

fn serves(site: &Site) {
    let answer = site.post(INFER, right().to_string()).ok();
    assert_eq!(answer["outputs"][0]["data"], json!([1.0, 2.0]));
}

#[test]
fn wrong_json_is_told_and_the_server_goes_on() {
    let site = site();
    let mut bodies = replaced();
    bodies.extend(handmade());
    let whole = right().to_string().into_bytes();
    bodies.extend((0..whole.len()).step_by(2).map(|length| whole[..length].to_vec()));
    assert!(bodies.len() > 300, "{}", bodies.len());
    let mut refused = 0;
    for body in &bodies {
        let form = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        for path in [INFER, "/v2/models/m/generate"] {
            let head = head(path, &format!("Content-Length: {}\r\n", body.len()));
            let answer = site.raw(&[head.as_bytes(), body].concat());
            refused += usize::from(is_told(&answer, &form) >= 400);
        }
    }
    // A few places take nearly anything: an id may be any text.
    assert!(refused > bodies.len() * 2 - 40, "{refused} of {}", bodies.len() * 2);
    serves(&site);
}

#[test]
fn wrong_lengths_are_told_and_the_server_goes_on() {
    let site = site();
    let (json, data) = binary();
    let text = json.to_string();
    let send = |length: &str, text: &str, data: &[u8], form: &str| {
        let body = [text.as_bytes(), data].concat();
        let headers = format!(
            "Inference-Header-Content-Length: {length}\r\nContent-Length: {}\r\n",
            body.len()
        );
        is_told(&site.raw(&[head(INFER, &headers).as_bytes(), &body].concat()), form)
    };
    let right = text.len().to_string();
    assert_eq!(send(&right, &text, &data, "right"), 200);
    for length in [
        "",
        "x",
        "-1",
        "1.5",
        "0x10",
        "1",
        "99999",
        "2147483648",
        "18446744073709551616",
        "99999999999999999999999999999999999999999999",
        "\u{663}",
        "+",
        "1 2",
    ] {
        assert_eq!(send(length, &text, &data, length), 400, "{length}");
    }
    for (number, cut) in
        [&data[..7], &data[..0], &[&data[..], &[0]].concat()].into_iter().enumerate()
    {
        assert_eq!(send(&right, &text, cut, &format!("cut {number}")), 400);
    }
    for claim in claims() {
        let mut json = json.clone();
        json["inputs"][0]["parameters"]["binary_data_size"] = claim.clone();
        let text = json.to_string();
        let status = send(&text.len().to_string(), &text, &data, &text);
        assert!(matches!(status, 400 | 413), "{claim}: {status}");
    }
    serves(&site);
}

#[test]
fn wrong_http_is_told_and_the_server_goes_on() {
    let site = site();
    let body = right().to_string();
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());
    let chunked = |rest: &str| format!("{}{rest}", head(INFER, "Transfer-Encoding: chunked\r\n"));
    assert_eq!(
        is_told(site.raw(chunked(&format!("{chunk}0\r\n\r\n")).as_bytes()).as_slice(), "right"),
        200
    );
    let trailer = chunked(&format!("{chunk}0\r\nX: y\r\n\r\n"));
    assert_eq!(is_told(&site.raw(trailer.as_bytes()), "a trailer"), 200);
    let bytes: String = body.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
    assert_eq!(
        is_told(&site.raw(chunked(&format!("{bytes}0\r\n\r\n")).as_bytes()), "one by one"),
        200
    );
    for rest in [
        "zz\r\n",
        "-1\r\n\r\n",
        "ffffffffffffffffff\r\n",
        "7fffffffffffffff\r\n{",
        "5\r\n{}\r\n0\r\n\r\n",
        "\r\n\r\n",
        "1;ext\r\n{",
        "",
    ] {
        let answer = site.raw(chunked(rest).as_bytes());
        // Where the connection ends within the body, there may be nobody to tell.
        assert!(answer.is_empty() || is_told(&answer, rest) >= 400, "{rest:?}");
    }
    for request in [
        "GET\r\n\r\n".to_owned(),
        "\u{0}\u{1}\u{2}\r\n\r\n".to_owned(),
        "GET /v2 HTTP/9.9\r\n\r\n".to_owned(),
        "GET /v2 HTTP/1.1\r\nA B: c\r\n\r\n".to_owned(),
        head(INFER, "Content-Length: x\r\n"),
        head(INFER, "Content-Length: -1\r\n"),
        head(INFER, "Content-Length: 99999999999999999999\r\n"),
        head(INFER, "Content-Length: 1\r\nContent-Length: 2\r\n"),
        head(INFER, "Transfer-Encoding: gzip\r\nContent-Length: 1\r\n"),
        head(INFER, "Content-Length: 18446744073709551615\r\n"),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(70_000)),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "%2f..".repeat(100)),
        "GET /v2/models/..%2f..%2fetc/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_owned(),
        "POST /v2/repository/models/..%2fm/load HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let answer = site.raw(request.as_bytes());
        let form = &request[..request.len().min(100)];
        assert!(answer.is_empty() || is_told(&answer, form) >= 400, "{form:?}");
    }
    serves(&site);
}

#[test]
fn what_may_be_understood_in_two_ways_is_refused() {
    let site = site();
    let ask = |line: &str, headers: &str, body: &str| {
        let request = format!("{line}\r\nConnection: close\r\n{headers}\r\n{body}");
        Answer::of(&site.raw(request.as_bytes())).unwrap()
    };
    let get = "GET /v2 HTTP/1.1";
    assert_eq!(ask(get, "Host: localhost\r\n", "").status, 200);
    assert_eq!(ask("GET /v2 HTTP/1.0", "", "").status, 200);
    assert_eq!(ask("GET http://localhost/v2 HTTP/1.1", "Host: localhost\r\n", "").status, 200);
    for (headers, words) in [
        ("", "no header `Host`"),
        ("Host: localhost\r\nHost: localhost\r\n", "more than one header `host`"),
        ("Host:\r\n", "cannot be understood"),
        ("Host: local host\r\n", "cannot be understood"),
        ("Host: me@localhost\r\n", "cannot be understood"),
        ("Host: localhost:x\r\n", "cannot be understood"),
        ("Host: localhost:99999\r\n", "cannot be understood"),
        ("Host: localhost/v2\r\n", "cannot be understood"),
        ("Host: [::1\r\n", "cannot be understood"),
    ] {
        let answer = ask(get, headers, "");
        assert!(answer.error(400).contains(words), "{headers:?}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    // The host of the target counts (RFC 9112, 3.2.2).
    ask("GET http://evil.example/v2 HTTP/1.1", "Host: localhost\r\n", "").error(421);
    let post = format!("POST {INFER} HTTP/1.1");
    let chunked = "2\r\n{}\r\n0\r\n\r\n";
    for coding in ["gzip, chunked", "chunked\r\nTransfer-Encoding: chunked", "chunked, chunked"] {
        let headers = format!("Host: localhost\r\nTransfer-Encoding: {coding}\r\n");
        let message = ask(&post, &headers, chunked).error(400);
        assert!(message.to_lowercase().contains("transfer-encoding"), "{message}");
    }
    // hyper tells of neither.
    let message = ask(&post, "Host: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n", "{}");
    assert!(message.error(400).contains("more than one header `content-length`"), "{message:?}");
    for bare in [
        "GET /v2 HTTP/1.1\nHost: localhost\n\n",
        "GET /v2 HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    ] {
        let message = Answer::of(&site.raw(bare.as_bytes())).unwrap().error(400);
        assert!(message.contains("LF alone"), "{message}");
    }
    // Nor of those of later requests.
    let right = right().to_string();
    let length = format!("Content-Length: {}\r\n\r\n{right}", right.len());
    let first = format!("{post}\r\nHost: localhost\r\n{length}");
    let chunks = format!(
        "{post}\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{right}\r\n0\r\n\r\n",
        right.len()
    );
    for first in [first, chunks] {
        let mut connection = site.connect();
        for _ in 0..2 {
            connection.write_all(first.as_bytes()).unwrap();
            let mut answer = Vec::new();
            while Answer::of(&answer).is_none() {
                let mut piece = [0; 1000];
                let length = connection.read(&mut piece).unwrap();
                assert!(length > 0);
                answer.extend_from_slice(&piece[..length]);
            }
            assert_eq!(
                Answer::of(&answer).unwrap().status,
                200,
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
        connection.write_all(b"GET /v2 HTTP/1.1\nHost: localhost\n\n").unwrap();
        assert!(Answer::read(&mut connection).error(400).contains("LF alone"));
    }
    // Requests that come at once are parted.
    let pipelined = format!(
        "GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n{}GET /v2 HTTP/1.1\nHost: localhost\n\n",
        format!("{post}\r\nHost: localhost\r\n{length}").repeat(3)
    );
    let answers = String::from_utf8(site.raw(pipelined.as_bytes())).unwrap();
    let of = |status: &str| answers.matches(&format!("HTTP/1.1 {status}")).count();
    assert_eq!((of("200"), of("400")), (4, 1), "{answers}");
    let headers = "Host: localhost\r\nInference-Header-Content-Length: 2\r\nInference-Header-Content-Length: 2\r\nContent-Length: 2\r\n";
    let message = ask(&post, headers, "{}").error(400);
    assert!(
        message.contains("more than one header `inference-header-content-length`"),
        "{message}"
    );
    serves(&site);
}

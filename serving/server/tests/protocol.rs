//! The protocol over HTTP: what clients of Triton and KServe rely on.

mod common;

use common::{ECHO, FLOATS, Site, config_of};
use hydrozoa_models::DataType;
use serde_json::{Value, json};

#[test]
fn health_and_metadata_are_those_of_the_protocol() {
    let site = Site::new();
    assert_eq!(site.get("/v2/health/live").ok(), json!({ "live": true }));
    assert_eq!(site.get("/v2/health/ready").ok(), json!({ "ready": true }));
    let server = site.get("/v2").ok();
    assert_eq!(server["name"], "triton");
    assert!(server["extensions"].as_array().unwrap().contains(&json!("binary_tensor_data")));
    site.write("m", 1, &format!("{FLOATS} version_policy {{ all {{}} }}"), ECHO);
    site.write("m", 3, &format!("{FLOATS} version_policy {{ all {{}} }}"), ECHO);
    site.service.server().load("m").unwrap();
    let tensor = |name: &str| json!({ "name": name, "datatype": "FP32", "shape": [-1, -1] });
    let expected = json!({
        "name": "m", "versions": ["1", "3"], "platform": "python",
        "inputs": [tensor("IN")], "outputs": [tensor("OUT")],
    });
    assert_eq!(site.get("/v2/models/m").ok(), expected);
    assert_eq!(site.get("/v2/models/m/versions/3").ok()["versions"], json!(["3"]));
    assert_eq!(site.get("/v2/models/m/ready").ok(), json!({ "name": "m", "ready": true }));
    assert_eq!(site.get("/v2/models/m/versions/2/ready").status, 404);
    assert_eq!(site.get("/v2/models/m/config").ok()["max_batch_size"], 8);
    site.service.close();
    let closed = site.get("/v2/health/ready");
    assert_eq!((closed.status, closed.json()), (400, json!({ "ready": false })));
}

#[test]
fn what_is_unknown_or_not_allowed_says_so() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    for (method, path, status, words) in [
        ("GET", "/v1", 404, "Not Found"),
        ("GET", "/v2/", 404, "Not Found"),
        ("GET", "/v2/models/m/versions/x", 404, "Not Found"),
        ("POST", "/v2/health/live", 405, "Method Not Allowed"),
        ("GET", "/v2/models/m/infer", 405, "Method Not Allowed"),
        ("GET", "/v2/models/absent", 404, "unknown model: 'absent'"),
        ("GET", "/v2/models/m/versions/7", 404, "version 7 is not found"),
        (
            "GET",
            "/v2/models/m/versions/99999999999999999999",
            400,
            "version should be an integral value",
        ),
        ("GET", "/v2/models/%ff", 400, "UTF-8"),
        ("GET", "/v2/models/absent/stats", 400, "requested model 'absent' is not available"),
        ("GET", "/v2/models/m/versions/2/stats", 400, "version is not available for model 'm'"),
        ("GET", "/v2/logging", 503, "does not support dynamic logging"),
        ("POST", "/v2/trace/setting", 503, "does not support tracing"),
        ("GET", "/v2/models/m/trace/setting", 503, "does not support tracing"),
        ("GET", "/v2/systemsharedmemory/region/r/status", 404, "shared memory region: 'r'"),
        ("POST", "/v2/cudasharedmemory/region/r/register", 501, "shared memory is disabled"),
        ("POST", "/v2/repository/r/models/m/load", 501, "'repository_name'"),
        ("POST", "/v2/models/absent/infer", 404, "unknown model: 'absent'"),
        ("POST", "/v2/models/m/versions/2/generate", 404, "version 2 is not found"),
    ] {
        let message = site.request(method, path, &[], b"").error(status);
        assert!(message.contains(words), "{path}: {message}");
    }
    assert_eq!(site.get("/v2/systemsharedmemory/status").ok(), json!([]));
}

#[test]
fn tensors_in_json_are_answered_in_json() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let input = json!({ "name": "IN", "datatype": "FP32", "shape": [2, 2], "data": [[0.1, 1], [2.5, -3e8]] });
    let request = json!({ "id": "a\"b", "inputs": [input] });
    let answer = site.post("/v2/models/m/infer", request.to_string());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let expected = json!({
        "id": "a\"b", "model_name": "m", "model_version": "1",
        "outputs": [{ "name": "OUT", "datatype": "FP32", "shape": [2, 2], "data": [0.1, 1.0, 2.5, -3e8] }],
    });
    assert_eq!(answer.ok(), expected);
    let named = site.post("/v2/models/m/versions/1/infer", request.to_string());
    assert_eq!(named.ok()["model_version"], "1");
}

#[test]
fn binary_tensors_of_all_types_come_and_go() {
    let site = Site::new();
    site.model("types", &config_of(DataType::ALL, "[ -1 ]"), ECHO);
    let mut data = Vec::new();
    let inputs: Vec<Value> = DataType::ALL
        .iter()
        .map(|data_type| {
            let bytes = match data_type.size() {
                Some(size) => (0..3 * size).map(|byte| (byte % 2) as u8).collect(),
                None => hydrozoa_models::encode_bytes([&b"a"[..], b"", b"\xff\0"]).to_vec(),
            };
            data.extend_from_slice(&bytes);
            let size = json!({ "binary_data_size": bytes.len() });
            json!({ "name": data_type.name(), "datatype": data_type.name(), "shape": [3], "parameters": size })
        })
        .collect();
    let head =
        json!({ "inputs": inputs, "parameters": { "binary_data_output": true } }).to_string();
    let length = head.len().to_string();
    let body = [head.as_bytes(), &data].concat();
    let headers = [("Inference-Header-Content-Length", length.as_str())];
    let answer = site.request("POST", "/v2/models/types/infer", &headers, &body);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status, 200, "{text}");
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    let length: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
    let (head, binary) = answer.body.split_at(length);
    assert_eq!(binary, data);
    let head: Value = serde_json::from_slice(head).unwrap();
    for (output, data_type) in head["outputs"].as_array().unwrap().iter().zip(DataType::ALL) {
        assert_eq!((&output["name"], &output["shape"]), (&json!(data_type.name()), &json!([3])));
    }
}

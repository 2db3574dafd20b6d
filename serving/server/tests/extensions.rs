//! Triton's extensions over HTTP: binary data, compression, classification, parameters, generation, repository, metrics.

mod common;

use base64::Engine as _;
use common::{Answer, ECHO, FLOATS, Site, float_bytes, floats, source};
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use hydrozoa_server::Control;
use hydrozoa_server::http::Limits;
use serde_json::{Value, json};
use std::io::{Read, Write};

/// A request whose JSON has binary data behind it.
fn binary(site: &Site, path: &str, head: &Value, data: &[u8]) -> Answer {
    let head = head.to_string();
    let length = head.len().to_string();
    let body = [head.as_bytes(), data].concat();
    site.request("POST", path, &[("Inference-Header-Content-Length", &length)], &body)
}

#[test]
fn a_client_chooses_the_form_of_each_output() {
    let site = Site::new();
    let both = r#"
max_batch_size: 0
input [ { name: "A" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "B" data_type: TYPE_INT8 dims: [ 2 ] } ]
output [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "Y" data_type: TYPE_INT8 dims: [ 2 ] } ]
"#;
    site.model("both", both, ECHO);
    let size = json!({ "binary_data_size": 8 });
    let inputs = json!([
        { "name": "A", "datatype": "FP32", "shape": [2], "parameters": size },
        { "name": "B", "datatype": "INT8", "shape": [2], "data": [1, -1] },
    ]);
    let send = |outputs: Value| {
        let head = json!({ "inputs": inputs, "outputs": outputs });
        binary(&site, "/v2/models/both/infer", &head, &float_bytes(&[1.0, 2.0]))
    };
    let answer =
        send(json!([{ "name": "X", "parameters": { "binary_data": true } }, { "name": "Y" }]));
    let length: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
    let head: Value = serde_json::from_slice(&answer.body[..length]).unwrap();
    assert_eq!(answer.body[length..], float_bytes(&[1.0, 2.0]));
    assert_eq!(head["outputs"][0]["parameters"], size);
    assert_eq!(head["outputs"][1]["data"], json!([1, -1]));
    let only = send(json!([{ "name": "Y" }])).ok();
    assert_eq!(only["outputs"].as_array().unwrap().len(), 1);
    let message = send(json!([{ "name": "Z" }])).error(400);
    assert!(message.contains("unexpected inference output 'Z'"), "{message}");
}

#[test]
fn requests_and_responses_are_compressed() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let request = floats(&[1, 3], &[1.0, 2.0, 3.0]).to_string();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(request.as_bytes()).unwrap();
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
    deflate.write_all(request.as_bytes()).unwrap();
    for (encoding, body) in
        [("gzip", gzip.finish().unwrap()), ("deflate", deflate.finish().unwrap())]
    {
        let headers = [("Content-Encoding", encoding), ("Accept-Encoding", encoding)];
        let answer = site.request("POST", "/v2/models/m/infer", &headers, &body);
        assert_eq!(answer.header("content-encoding"), Some(encoding));
        let mut plain = Vec::new();
        match encoding {
            "gzip" => GzDecoder::new(&answer.body[..]).read_to_end(&mut plain).unwrap(),
            _ => ZlibDecoder::new(&answer.body[..]).read_to_end(&mut plain).unwrap(),
        };
        let plain: Value = serde_json::from_slice(&plain).unwrap();
        assert_eq!(plain["outputs"][0]["data"], json!([1.0, 2.0, 3.0]));
        let cut = site.request("POST", "/v2/models/m/infer", &headers, &body[..body.len() - 3]);
        assert!(cut.error(400).contains("failed to decompress"));
    }
    let brotli = site.request("POST", "/v2/models/m/infer", &[("Content-Encoding", "br")], b"x");
    assert!(brotli.error(415).contains("Unsupported compression type"));
}

#[test]
fn an_output_may_be_asked_for_as_classes() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let mut request = floats(&[2, 3], &[1.0, 3.0, 2.0, 9.0, 7.0, 8.0]);
    request["outputs"] = json!([{ "name": "OUT", "parameters": { "classification": 2 } }]);
    let output = site.post("/v2/models/m/infer", request.to_string()).ok()["outputs"][0].clone();
    assert_eq!((&output["datatype"], &output["shape"]), (&json!("BYTES"), &json!([2, 2])));
    assert_eq!(output["data"], json!(["3.000000:1", "2.000000:2", "9.000000:0", "8.000000:2"]));
}

#[test]
fn the_model_sees_who_asks_and_with_what() {
    let site = Site::new();
    let code = "
import json

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            seen = [request.request_id(), request.correlation_id(), request.flags(), request.timeout(),
                    json.loads(request.parameters()), request.requested_output_names()]
            tensor = pb_utils.Tensor('OUT', np.array([json.dumps(seen)], np.object_))
            parameters = {'text': 'x', 'number': 7, 'yes': True}
            responses.append(pb_utils.InferenceResponse([tensor], parameters=parameters))
        return responses
";
    let config = FLOATS
        .replace("name: \"OUT\" data_type: TYPE_FP32", "name: \"OUT\" data_type: TYPE_STRING");
    site.model("m", &config, code);
    let mut request = floats(&[1, 1], &[0.0]);
    request["id"] = json!("seven");
    request["parameters"] = json!({
        "sequence_id": 9, "sequence_start": true, "sequence_end": true, "priority": 1, "timeout": 5_000_000,
        "own": "value", "count": -3, "flag": false, "ratio": 0.25,
    });
    let answer = site.post("/v2/models/m/infer", request.to_string()).ok();
    assert_eq!(answer["parameters"], json!({ "text": "x", "number": 7, "yes": true }));
    let seen: Value =
        serde_json::from_str(answer["outputs"][0]["data"][0].as_str().unwrap()).unwrap();
    let own = json!({ "own": "value", "count": -3, "flag": false, "ratio": 0.25 });
    assert_eq!(seen, json!(["seven", 9, 3, 5_000_000, own, ["OUT"]]));
    request["parameters"] = json!({ "sequence_id": "text" });
    let answer = site.post("/v2/models/m/infer", request.to_string()).ok();
    assert!(answer["outputs"][0]["data"][0].as_str().unwrap().contains("\"text\""));
    request["parameters"] = json!({ "triton_x": 1 });
    let message = site.post("/v2/models/m/infer", request.to_string()).error(400);
    assert!(message.contains("reserved for Triton usage"), "{message}");
}

#[test]
fn a_body_may_be_the_input_itself() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let texts = r#"
input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }
"#;
    site.model("texts", texts, ECHO);
    let headers = [("Inference-Header-Content-Length", "0")];
    let send = |model: &str, body: &[u8]| {
        site.request("POST", &format!("/v2/models/{model}/infer"), &headers, body)
    };
    for (model, body, expected) in [
        ("m", float_bytes(&[1.0, 2.0]), float_bytes(&[1.0, 2.0])),
        ("texts", b"a text".to_vec(), b"\x06\0\0\0a text".to_vec()),
    ] {
        let answer = send(model, &body);
        let length: usize =
            answer.header("inference-header-content-length").unwrap().parse().unwrap();
        assert_eq!(answer.body[length..], expected);
    }
    assert!(send("m", b"abc").error(400).contains("not a whole number of elements"));
    let two = "input [ { name: \"A\" data_type: TYPE_INT8 dims: [ 1 ] }, { name: \"B\" data_type: TYPE_INT8 dims: [ 1 ] } ]";
    site.model("two", two, ECHO);
    assert!(send("two", b"a").error(400).contains("must only have 1 input (found 2)"));
}

#[test]
fn models_errors_have_tritons_status() {
    let site = Site::new();
    let code = "
class TritonPythonModel:
    def execute(self, requests):
        code = int(pb_utils.get_input_tensor_by_name(requests[0], 'IN').as_numpy()[0][0])
        if code < 0:
            raise ValueError('thrown')
        error = pb_utils.TritonError('made', code)
        return [pb_utils.InferenceResponse(error=error)]
";
    site.model("fails", FLOATS, code);
    let of = |code: f32| site.post("/v2/models/fails/infer", floats(&[1, 1], &[code]).to_string());
    assert!(of(-1.0).error(500).contains("ValueError: thrown"));
    // UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED
    for (code, status) in [400, 500, 404, 400, 503, 501, 400, 400].into_iter().enumerate() {
        assert!(of(code as f32).error(status).contains("made"));
    }
    assert_eq!(of(4.0).header("retry-after"), Some("1"));
}

#[test]
fn clients_load_and_unload_models_if_they_may() {
    let site = Site::with(Limits::default(), |settings| {
        (settings.control, settings.client_files) = (Control::Clients, true);
    });
    site.write("m", 1, FLOATS, ECHO);
    let index = |body: &str| site.post("/v2/repository/index", body).ok();
    assert_eq!(index(""), json!([{ "name": "m" }]));
    assert_eq!(index("{\"ready\": true}"), json!([]));
    assert!(site.post("/v2/repository/index", "{\"ready\": 1}").error(400).contains("'ready'"));
    assert_eq!(site.post("/v2/repository/models/m/load", "").status, 200);
    assert_eq!(index("{}"), json!([{ "name": "m", "version": "1", "state": "READY" }]));
    let load = |parameters: Value| {
        let body = json!({ "parameters": parameters }).to_string();
        site.post("/v2/repository/models/m/load", body)
    };
    for (parameters, status, words) in [
        (json!({ "config": 1 }), 400, "Unable to parse 'config'"),
        (
            json!({ "config": "{" }),
            400,
            "failed to load 'm', model `m`: config.pbtxt: the load's `config`",
        ),
        (
            json!({ "config": "{}", "file:1/model.py": "no!" }),
            400,
            "'file:1/model.py': it is not base64",
        ),
        (
            json!({ "file:1/model.py": "" }),
            400,
            "failed to load 'm', model `m`: the load's files need",
        ),
        (json!({ "config": "{}", "file:1/\0": "" }), 400, "not a path within the model's folder"),
        (
            json!({ "config": "{}", "file:1/model.py/x": "", "file:1/model.py": "" }),
            500,
            "failed to poll",
        ),
        (json!({ "other": "" }), 400, "unrecognized load parameter 'other'."),
    ] {
        let message = load(parameters).error(status);
        assert!(message.contains(words), "{message}");
    }
    let tensor = |name| json!([{ "name": name, "data_type": "TYPE_FP32", "dims": [-1] }]);
    let config = json!({ "max_batch_size": "16", "input": tensor("IN"), "output": tensor("OUT") });
    load(json!({ "config": config.to_string() })).ok_empty();
    assert_eq!(site.get("/v2/models/m/config").ok()["max_batch_size"], 16);
    let given = "Y2xhc3MgVHJpdG9uUHl0aG9uTW9kZWw6CiAgICBkZWYgZXhlY3V0ZShzZWxmLCByZXF1ZXN0cyk6CiAgICAgICAgcmFpc2UgT1NFcnJvcignZ2l2ZW4nKQo=";
    load(json!({ "config": config.to_string(), "file:1/model.py": given })).ok_empty();
    let message = site.post("/v2/models/m/infer", floats(&[1, 1], &[0.0]).to_string()).error(500);
    assert!(message.contains("given"), "{message}");
    assert_eq!(site.post("/v2/repository/models/m/load", "").status, 200);
    let dependents = "{\"parameters\": {\"unload_dependents\": true}}";
    assert_eq!(site.post("/v2/repository/models/m/unload", dependents).status, 200);
    assert!(site.get("/v2/models/m/ready").error(400).contains("not ready"));
    assert_eq!(site.post("/v2/models/m/infer", floats(&[1, 1], &[0.0]).to_string()).status, 503);
    site.write("bad", 1, FLOATS, "raise ImportError('not today')");
    let message = site.post("/v2/repository/models/bad/load", "").error(400);
    assert!(message.contains("failed to load 'bad'") && message.contains("not today"), "{message}");
    assert!(index("")[0]["reason"].as_str().unwrap().contains("not today"));
    assert_eq!(site.get("/v2/health/ready").status, 400);
    for path in ["/v2/repository/models/absent/load", "/v2/repository/models/absent/unload"] {
        assert!(site.post(path, "").error(404).contains("`absent`"));
    }

    let closed = Site::with(Default::default(), |_| {});
    let message = closed.post("/v2/repository/models/m/load", "").error(503);
    assert!(message.contains("--model-control-mode=explicit"), "{message}");
}

#[test]
fn statistics_and_metrics_have_tritons_names() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    site.post("/v2/models/m/infer", floats(&[2, 1], &[0.0, 0.0]).to_string()).ok();
    site.post("/v2/models/m/infer", floats(&[9, 1], &[0.0; 9]).to_string()).error(400);
    for path in ["/v2/models/m/stats", "/v2/models/m/versions/1/stats", "/v2/models/stats"] {
        let statistics = site.get(path).ok()["model_stats"][0].clone();
        assert_eq!((&statistics["name"], &statistics["version"]), (&json!("m"), &json!("1")));
        assert_eq!(statistics["inference_count"], 2);
        assert_eq!(statistics["execution_count"], 1);
        assert!(statistics["last_inference"].as_u64().unwrap() > 1_700_000_000_000);
        let of = &statistics["inference_stats"];
        assert_eq!((&of["success"]["count"], &of["fail"]["count"]), (&json!(1), &json!(1)));
        assert!(of["success"]["ns"].as_u64().unwrap() > 0);
        assert!(of["compute_infer"]["ns"].as_u64().unwrap() > 0);
        let batches = statistics["batch_stats"].as_array().unwrap();
        assert_eq!((batches.len(), &batches[0]["batch_size"]), (1, &json!(2)));
        assert_eq!(batches[0]["compute_infer"], of["compute_infer"]);
    }
    let metrics = site.get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));
    let text = String::from_utf8(metrics.body).unwrap();
    for line in [
        "# TYPE nv_inference_request_success counter",
        "nv_inference_request_success{model=\"m\",version=\"1\"} 1",
        "nv_inference_request_failure{model=\"m\",reason=\"OTHER\",version=\"1\"} 1",
        "nv_inference_request_failure{model=\"m\",reason=\"REJECTED\",version=\"1\"} 0",
        "nv_inference_count{model=\"m\",version=\"1\"} 2",
        "nv_inference_exec_count{model=\"m\",version=\"1\"} 1",
        "nv_inference_pending_request_count{model=\"m\",version=\"1\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
}

#[test]
fn clients_bring_files_if_they_may() {
    let site = Site::new();
    site.write("m", 1, FLOATS, ECHO);
    let mark = site.path().join("ran");
    let code = source(&format!("\nopen({mark:?}, 'w').close()\n{ECHO}"));
    let code = base64::engine::general_purpose::STANDARD.encode(code);
    let tensor = |name| json!([{ "name": name, "data_type": "TYPE_FP32", "dims": [-1] }]);
    let config = json!({ "input": tensor("IN"), "output": tensor("OUT") }).to_string();
    let parameters = json!({ "config": config, "file:1/model.py": code });
    let body = json!({ "parameters": parameters }).to_string();
    let message = site.post("/v2/repository/models/m/load", &body).error(501);
    assert!(message.contains("--allow-client-files=true"), "{message}");
    assert!(!mark.exists(), "the client's code has run");
    // The repository's own are loaded as ever, also with a configuration of the client's.
    let config = json!({ "parameters": { "config": config } }).to_string();
    site.post("/v2/repository/models/m/load", config).ok_empty();
    let site = Site::with(Limits::default(), |settings| {
        (settings.control, settings.client_files) = (Control::Clients, true);
    });
    site.post("/v2/repository/models/m/load", &body).ok_empty();
    assert!(mark.exists());
}

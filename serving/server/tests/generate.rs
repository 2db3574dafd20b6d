//! The generate extension, and models that send any number of responses.

mod common;

use common::{Answer, ECHO, FLOATS, Site, until, whole};
use serde_json::{Value, json};
use std::io::Read;
use std::time::{Duration, Instant};

const TEXTS: &str = r#"
input [
  { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] optional: true }
]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ -1 ] } ]
"#;

/// Sends each word of a text, `pause` seconds apart, up to the greatest number of tokens.
const WORDS: &str = "
import json
import time

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            text = pb_utils.get_input_tensor_by_name(request, 'text_input').as_numpy()[0].decode()
            most = pb_utils.get_input_tensor_by_name(request, 'max_tokens')
            words = text.split()[:None if most is None else int(most.as_numpy()[0])]
            pause = json.loads(request.parameters()).get('pause', 0)
            for word in words:
                if request.is_cancelled():
                    open(pb_utils.get_model_dir() + '/cancelled', 'w').close()
                    break
                if word == 'ERROR':
                    error = pb_utils.TritonError('no word', pb_utils.TritonError.INVALID_ARG)
                    sender.send(pb_utils.InferenceResponse(error=error))
                    continue
                tensor = pb_utils.Tensor('text_output', np.array([word.encode()], np.object_))
                sender.send(pb_utils.InferenceResponse([tensor]))
                time.sleep(pause)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";

fn words(site: &Site) {
    site.model("words", &format!("{TEXTS} model_transaction_policy {{ decoupled: true }}"), WORDS);
}

/// The JSON of server-sent events.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = str::from_utf8(&answer.body).unwrap();
    assert!(text.is_empty() || text.ends_with("\n\n"), "{text:?}");
    let events = text.split_terminator("\n\n");
    events
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect()
}

#[test]
fn a_text_is_generated() {
    let site = Site::new();
    words(&site);
    let request = json!({ "id": "7", "text_input": "one two", "parameters": { "max_tokens": 1 } });
    let expected =
        json!({ "id": "7", "model_name": "words", "model_version": "1", "text_output": "one" });
    assert_eq!(site.post("/v2/models/words/generate", request.to_string()).ok(), expected);
    let many = json!({ "text_input": "one two" }).to_string();
    let message = site.post("/v2/models/words/generate", &many).error(400);
    assert!(message.contains("exactly 1 response"), "{message}");
    let none = site.post("/v2/models/words/generate", r#"{"text_input": ""}"#).error(400);
    assert!(none.contains("exactly 1"));
    let message = site.post("/v2/models/words/infer", "{}").error(501);
    assert!(message.contains("decoupled transaction policy"), "{message}");
}

#[test]
fn responses_are_sent_as_events() {
    let site = Site::new();
    words(&site);
    let stream = |text: &str| {
        site.post("/v2/models/words/generate_stream", json!({ "text_input": text }).to_string())
    };
    let texts: Vec<Value> =
        events(&stream("a b c")).into_iter().map(|event| event["text_output"].clone()).collect();
    assert_eq!(texts, ["a", "b", "c"]);
    assert_eq!(events(&stream("")), Vec::<Value>::new());
    let failed = events(&stream("a ERROR c"));
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[1], json!({ "error": "no word" }));
    // The status is that of the first response.
    assert_eq!(stream("ERROR").error(400), "no word");
}

#[test]
fn an_event_comes_when_the_model_sends_it_and_a_client_that_goes_away_is_heard_of() {
    let site = Site::new();
    words(&site);
    let body = json!({ "text_input": "a ".repeat(10_000), "pause": 0.01 }).to_string();
    let mut connection = site.send(whole("/v2/models/words/generate_stream", &body));
    let mut seen = Vec::new();
    let began = Instant::now();
    while !seen.windows(6).any(|window| window == b"data: ") {
        let mut piece = [0; 1024];
        let length = connection.read(&mut piece).unwrap();
        assert!(length > 0);
        seen.extend_from_slice(&piece[..length]);
    }
    // All of them take 100 seconds.
    assert!(began.elapsed() < Duration::from_secs(30));
    drop(connection);
    let cancelled = site.path().join("words/1/cancelled");
    until("what the model does when its client is gone", || cancelled.exists());
}

#[test]
fn what_is_generated_from_tensors_has_their_shapes() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let send = |body: &Value| site.post("/v2/models/m/generate", body.to_string());
    assert_eq!(send(&json!({ "IN": [1, 2.5] })).ok()["OUT"], json!([1.0, 2.5]));
    assert_eq!(send(&json!({ "IN": 3 })).ok()["OUT"], json!(3.0));
    assert_eq!(events(&site.post("/v2/models/m/generate_stream", "{\"IN\": 3}")).len(), 1);
    for (body, words) in [
        (json!({ "IN": "text" }), "expected a number"),
        (json!({ "IN": [[1], [2, 3]] }), "shape does not match"),
        (json!({ "IN": {} }), "expected a number"),
        (json!({ "IN": 1, "other": [1] }), "parameter 'other' has invalid type"),
        (json!({ "IN": 1, "parameters": 1 }), "Expected JSON object for keyword: 'parameters'"),
        (json!([1]), "failed to parse"),
        (json!({}), "missing required input(s) ['IN']"),
    ] {
        let message = send(&body).error(400);
        assert!(message.contains(words), "{body}: {message}");
    }
}

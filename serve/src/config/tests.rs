use super::{ModelConfig, TimeoutAction, VersionPolicy};
use crate::datatype::DataType;

const TEXT: &str = r#"
# A comment.
backend: "python"
max_batch_size: 8
input [
  { name: "IN" data_type: TYPE_FP32 dims: [ -1, 4 ] },
  { name: "TEXT", data_type: TYPE_STRING, dims: [ 1 ], optional: true }
]
output { name: "OUT" data_type: TYPE_INT64 dims: 1 }
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  priority_levels: 2
  default_priority_level: 2
  default_queue_policy { timeout_action: DELAY max_queue_size: 7 }
  priority_queue_policy { key: 1 value: { default_timeout_microseconds: 50 } }
}
parameters: { key: "EXECUTION_ENV_PATH", value: { string_value: "venv" } }
model_transaction_policy { decoupled: True }
"#;

fn error(text: &str) -> String {
    ModelConfig::of_text(text, "model").unwrap_err().to_string()
}

#[test]
fn a_configuration_is_read_with_the_defaults_of_what_it_does_not_say() {
    let config = ModelConfig::of_text(TEXT, "model").unwrap();
    assert_eq!(
        (config.name(), config.max_batch_size(), config.file_name()),
        ("model", 8, "model.py")
    );
    assert_eq!(config.inputs()[0].data_type, DataType::Fp32);
    assert_eq!(config.inputs()[0].dims, [-1, 4]);
    assert!(config.inputs()[1].optional && !config.inputs()[0].optional);
    assert_eq!(config.outputs()[0].dims, [1]);
    assert_eq!(config.parameter("EXECUTION_ENV_PATH"), Some("venv"));
    assert!(config.is_decoupled());
    let batching = config.dynamic_batching().unwrap();
    assert_eq!(batching.delay().as_micros(), 100);
    assert_eq!(batching.policy(1).default_timeout_microseconds, 50);
    assert_eq!(
        (batching.policy(2).timeout_action, batching.policy(2).max_queue_size),
        (TimeoutAction::Delay, 7)
    );
    // As Python models look at it.
    let json = config.json();
    assert_eq!(json["input"][0]["data_type"], "TYPE_FP32");
    assert_eq!(json["model_transaction_policy"]["decoupled"], true);
    assert_eq!(json["instance_group"][0]["name"], "model_0");
    assert_eq!(json["dynamic_batching"]["max_queue_delay_microseconds"], 100);
}

#[test]
fn json_is_the_same_configuration() {
    let config = ModelConfig::of_text(TEXT, "model").unwrap();
    assert_eq!(ModelConfig::of_json(config.json(), "model").unwrap(), config);
}

#[test]
fn a_model_without_a_configuration_has_the_defaults() {
    let config = ModelConfig::of_text("", "model").unwrap();
    assert_eq!(config.version_policy(), &VersionPolicy::Latest { num_versions: 1 });
    assert_eq!((config.instance_groups().len(), config.instance_groups()[0].count), (1, 1));
    assert!(!config.is_decoupled() && config.dynamic_batching().is_none());
    // Python models ask whether the keys are there.
    assert!(config.json().get("dynamic_batching").is_none());
    assert!(config.json()["input"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn versions_are_chosen_by_the_policy() {
    let available = [3, 1, 10];
    let of = |text: &str| {
        let config = ModelConfig::of_text(&format!("version_policy: {text}"), "model").unwrap();
        config.version_policy().choose(&available)
    };
    assert_eq!(of("{ latest { num_versions: 2 } }"), [3, 10]);
    assert_eq!(of("{ all {} }"), [1, 3, 10]);
    assert_eq!(of("{ specific { versions: [1, 10, 11] } }"), [1, 10]);
}

#[test]
fn what_is_not_honoured_is_refused_by_name() {
    assert!(
        error("sequence_batching { }").contains("sequence_batching"),
        "{}",
        error("sequence_batching { }")
    );
    assert!(error("optimization { cuda { graphs: true } }").contains("optimization"));
    assert!(error("backend: \"onnxruntime\"").contains("onnxruntime"));
    assert!(error("platform: \"tensorflow_savedmodel\"").contains("platform"));
}

#[test]
fn what_makes_no_sense_is_refused_by_field() {
    for (text, words) in [
        ("name: \"other\"", "name: it is `other`"),
        ("max_batch_size: -1", "max_batch_size"),
        ("input { name: \"A\" data_type: TYPE_FP32 dims: 0 }", "input[0].dims: 0"),
        (
            "input { name: \"A\" data_type: TYPE_FP32 dims: 1 } input { name: \"A\" data_type: TYPE_FP32 dims: 1 }",
            "twice",
        ),
        ("output { data_type: TYPE_FP32 dims: 1 }", "output[0].name"),
        ("output { name: \"A\" dims: 1 }", "TYPE_INVALID"),
        ("dynamic_batching { }", "max_batch_size"),
        ("max_batch_size: 2 dynamic_batching { preferred_batch_size: 3 }", "3 is not between"),
        ("max_batch_size: 2 dynamic_batching { priority_levels: 2 }", "default_priority_level"),
        ("instance_group { count: -1 }", "instance_group[0].count"),
        ("default_model_filename: \"../model.py\"", "../model.py"),
        ("max_batch_size: \"x\"", "max_batch_size"),
        ("input [", "input"),
    ] {
        let error = error(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

use super::{
    Control, FalseTrue, ModelConfig, Signal, Strategy, TimeoutAction, VersionPolicy, WarmupData,
};
use crate::request::DataType;
use std::time::Duration;

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

const SEQUENCES: &str = r#"
max_batch_size: 4
input { name: "IN" data_type: TYPE_FP32 dims: [ 2, 3 ] }
sequence_batching {
  direct { max_queue_delay_microseconds: 7 minimum_slot_utilization: 0.5 }
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } ] },
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } ] },
    { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } ] }
  ]
}
model_warmup [ {
  name: "zeros"
  batch_size: 2
  inputs { key: "IN" value: { data_type: TYPE_FP32 dims: [ 2, 3 ] zero_data: false } }
  inputs { key: "START" value: { data_type: TYPE_INT32 dims: 1 random_data: true } }
}, {
  name: "file"
  count: 3
  inputs { key: "IN" value: { data_type: TYPE_FP32 dims: [ 2, 3 ] input_data_file: "a/b" } }
} ]
"#;

#[test]
fn sequences_and_warm_ups_are_read() {
    let config = ModelConfig::of_text(SEQUENCES, "model").unwrap();
    let batching = config.sequence_batching().unwrap();
    // Triton's default, which models see, too.
    assert_eq!(batching.idle, Duration::from_secs(1));
    assert_eq!(config.json()["sequence_batching"]["max_sequence_idle_microseconds"], 1_000_000);
    assert_eq!(
        batching.strategy,
        Strategy::Direct { delay: Duration::from_micros(7), utilization: 0.5 }
    );
    let of = |name: &str, signal| Control { name: name.to_owned(), signal };
    let expected = [
        of("START", Signal::Start(FalseTrue::Int32([0, 1]))),
        of("READY", Signal::Ready(FalseTrue::Fp32([0.0, 1.0]))),
        of("END", Signal::End(FalseTrue::Bool([false, true]))),
        of("CORRID", Signal::CorrelationId(DataType::Bytes)),
    ];
    assert_eq!(batching.controls, expected);
    let [zeros, file] = config.warmups() else { panic!("{:?}", config.warmups()) };
    assert_eq!((zeros.batch_size, zeros.count), (2, 0));
    // As with Triton, the field counts and not what it says.
    assert_eq!(zeros.inputs["IN"].data, WarmupData::Zero);
    assert_eq!(
        (&zeros.inputs["START"].data, zeros.inputs["START"].dims[0]),
        (&WarmupData::Random, 1)
    );
    assert_eq!(file.inputs["IN"].data, WarmupData::File("a/b".to_owned()));
    assert_eq!(ModelConfig::of_json(config.json(), "model").unwrap(), config);
    let oldest = "max_batch_size: 2 sequence_batching { oldest { preferred_batch_size: 2 preserve_ordering: false } }";
    assert_eq!(
        ModelConfig::of_text(oldest, "model").unwrap().sequence_batching().unwrap().strategy,
        Strategy::Oldest { candidates: None, preferred_batch_size: vec![2], delay: Duration::ZERO }
    );
}

#[test]
fn sequences_and_warm_ups_that_make_no_sense_are_refused_by_field() {
    for (former, text, words) in [
        ("0.5", "1.5", "direct.minimum_slot_utilization: 1.5 is not between 0 and 1"),
        ("\"START\" control", "\"\" control", "control_input[0].name"),
        ("\"READY\"", "\"START\"", "control_input[1].name: `START` is there twice"),
        ("\"START\" control", "\"IN\" control", "control_input[0].name: `IN` is an input"),
        (
            "[ { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } ]",
            "[]",
            "exactly one, not 0",
        ),
        ("SEQUENCE_READY", "SEQUENCE_START", "`START` and `READY` are of the same kind"),
        (
            "int32_false_true: [ 0, 1 ]",
            "int32_false_true: 1",
            "control_input[0].control[0]: it needs two values",
        ),
        ("int32_false_true: [ 0, 1 ]", "data_type: TYPE_INT32", "it needs two values"),
        ("bool_false", "fp32_false_true: [ 0, 1 ] bool_false", "it needs two values"),
        ("data_type: TYPE_STRING", "", "TYPE_INVALID is not one of TYPE_UINT64"),
        ("data_type: TYPE_STRING", "data_type: TYPE_FP32", "TYPE_FP32 is not one of TYPE_UINT64"),
        ("data_type: TYPE_STRING", "int32_false_true: [ 0, 1 ]", "no values for no and yes"),
        ("sequence_batching {", "dynamic_batching { } sequence_batching {", "scheduling_choice"),
        (
            "key: \"START\"",
            "key: \"OTHER\"",
            "model_warmup[0].inputs { key: \"OTHER\" }: the model has no input",
        ),
        ("[ 2, 3 ] zero_data", "[ -1, 3 ] zero_data", "{ key: \"IN\" }.dims: -1 is not an extent"),
        ("zero_data: false", "", "needs one of zero_data, random_data and input_data_file"),
        ("a/b", "../b", "`../b` is not a path in the folder `warmup`"),
        ("a/b", "/b", "`/b` is not a path"),
    ] {
        let changed = SEQUENCES.replacen(former, text, 1);
        assert_ne!(changed, SEQUENCES, "{former}");
        let error = error(&changed);
        assert!(error.contains(words), "{text}: {error}");
    }
    for (oldest, words) in [
        (
            "preferred_batch_size: 3",
            "oldest.preferred_batch_size: 3 is not between 1 and max_batch_size",
        ),
        ("preserve_ordering: true", "oldest.preserve_ordering"),
        ("max_candidate_sequences: -1", "oldest.max_candidate_sequences: it must be 0 or more"),
    ] {
        let text = format!("max_batch_size: 2 sequence_batching {{ oldest {{ {oldest} }} }}");
        assert!(error(&text).contains(words), "{}", error(&text));
    }
}

#[test]
fn what_is_not_honoured_is_refused_by_name() {
    assert!(error("ensemble_scheduling { }").contains("ensemble_scheduling"));
    assert!(error("sequence_batching { state { input_name: \"A\" } }").contains("state"));
    assert!(error("sequence_batching { iterative_sequence: true }").contains("iterative_sequence"));
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

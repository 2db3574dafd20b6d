use super::plan::{Known, Plan};
use crate::config::{ConfigDraft, ModelConfig};
use hydrozoa::package::{Kind, Signature};

const SIGNATURE: &str = "hydrozoa signature 1
batch 0
input 0 tensor float32 [2,3] x
input 2 tensor int64 [2] lengths
output tensor float32 [2,5] scores
output tensor bool [2] OUTPUT__1
";

fn known(signature: Option<&str>) -> Known {
    Known {
        signature: signature.map(|text| text.parse::<Signature>().unwrap()),
        silence: "the package has no example".to_owned(),
        parameters: ["x", "mode", "lengths"].map(str::to_owned).to_vec(),
        kind: Kind::Tensor,
    }
}

fn planned(config: &str, signature: Option<&str>) -> Result<(Plan, ModelConfig), String> {
    let draft = ConfigDraft::of_text(&format!("backend: \"package\" {config}"), "m").unwrap();
    let mut json = draft.json().clone();
    let plan = Plan::new(&mut json, &known(signature))?;
    Ok((plan, ModelConfig::of_json(&json, "m").unwrap()))
}

/// Name and extents of each input and output of a configuration.
fn tensors(config: &ModelConfig) -> String {
    let all = config.inputs().iter().chain(config.outputs());
    let all: Vec<_> =
        all.map(|one| format!("{} {} {:?}", one.name, one.data_type, one.dims)).collect();
    all.join(", ")
}

fn places(plan: &Plan) -> Vec<(&str, usize, bool, bool)> {
    let argument =
        plan.arguments.iter().map(|one| (&*one.name, one.place, one.is_tensor, one.is_flat));
    argument.collect()
}

#[test]
fn a_package_alone_is_configured_by_its_signature() {
    let (plan, config) = planned("", Some(SIGNATURE)).unwrap();
    let expected = "x FP32 [2, 3], lengths INT64 [2], scores FP32 [2, 5], OUTPUT__1 BOOL [2]";
    assert_eq!(tensors(&config), expected);
    assert_eq!((config.max_batch_size(), config.dynamic_batching()), (0, None));
    assert_eq!(places(&plan), [("x", 0, true, false), ("lengths", 2, true, false)]);
}

#[test]
fn batches_of_a_signature_are_those_of_the_configuration() {
    let batched = SIGNATURE.replace("batch 0", "batch 8").replace("[2", "[-1");
    let (plan, config) = planned("", Some(&batched)).unwrap();
    // A tensor whose only extent is the batch's gets an extent of 1.
    let expected = "x FP32 [3], lengths INT64 [1], scores FP32 [5], OUTPUT__1 BOOL [1]";
    assert_eq!(tensors(&config), expected);
    assert_eq!(places(&plan), [("x", 0, true, false), ("lengths", 2, true, true)]);
    assert!(plan.has_batch && config.dynamic_batching().is_some());
    assert_eq!(config.max_batch_size(), 8);
    let (_, config) = planned(
        "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 5 }",
        Some(&batched),
    )
    .unwrap();
    assert_eq!(config.max_batch_size(), 4);
    assert_eq!(config.dynamic_batching().unwrap().max_queue_delay_microseconds, 5);
    // The example's first extent is that of a batch if the configuration says so.
    let (_, config) = planned("max_batch_size: 3", Some(SIGNATURE)).unwrap();
    assert_eq!((tensors(&config), config.max_batch_size()), (expected.to_owned(), 3));
    assert_eq!(config.dynamic_batching(), None);
}

#[test]
fn a_configuration_may_say_less_or_free_extents_and_name_by_places() {
    let text = r#"
input [ { name: "IN__2" }, { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] } ]
output { name: "OUTPUT__0" }
"#;
    let (plan, config) = planned(text, Some(SIGNATURE)).unwrap();
    assert_eq!(tensors(&config), "IN__2 INT64 [2], x FP32 [-1, 3], OUTPUT__0 FP32 [2, 5]");
    assert_eq!(places(&plan), [("x", 0, true, false), ("IN__2", 2, true, false)]);
}

#[test]
fn a_configuration_is_enough_without_an_example() {
    let text = r#"
input [ { name: "mode" data_type: TYPE_STRING dims: 1 }, { name: "IN__0" data_type: TYPE_BF16 dims: [ -1, 3 ] } ]
output { name: "OUT" data_type: TYPE_FP32 dims: 5 }
"#;
    let (plan, config) = planned(text, None).unwrap();
    assert_eq!(tensors(&config), "mode BYTES [1], IN__0 BF16 [-1, 3], OUT FP32 [5]");
    // torch has no texts.
    assert_eq!(places(&plan), [("IN__0", 0, true, false), ("mode", 1, false, false)]);
}

#[test]
fn a_package_and_a_configuration_that_do_not_agree_are_told_so() {
    let one = |text: &str| format!("input [ {{ name: \"lengths\" }}, {text} ]");
    for (config, signature, words) in [
        (
            String::new(),
            None,
            "the package has no example, and the model's configuration names no inputs and outputs; build it again",
        ),
        (
            "input { name: \"x\" data_type: TYPE_FP32 dims: 1 }".to_owned(),
            None,
            "`output` in config.pbtxt",
        ),
        (
            one("{ name: \"y\" }"),
            Some(SIGNATURE),
            "no parameter of the call has the name of the input `y`; name it after one of its parameters (x, mode, lengths)",
        ),
        (
            "input { name: \"x\" }".to_owned(),
            Some(SIGNATURE),
            "the call takes `lengths`, and the configuration has no such input",
        ),
        (
            one("{ name: \"IN__2\" }, { name: \"x\" }"),
            Some(SIGNATURE),
            "are the same argument, that at 2 from 0",
        ),
        (
            one("{ name: \"x\" data_type: TYPE_FP16 }"),
            Some(SIGNATURE),
            "the input `x` is TYPE_FP32 in the package, and TYPE_FP16 in the configuration",
        ),
        (
            one("{ name: \"x\" dims: [ 2, 4 ] }"),
            Some(SIGNATURE),
            "has dims [2, 3] in the package, and [2, 4] in the configuration",
        ),
        (
            one("{ name: \"x\" dims: [ 2, 3 ] } ] max_batch_size: 2 output [ { name: \"scores\" }"),
            Some(SIGNATURE),
            "the input `x` has dims [3] in the package without the batch's, and [2, 3]",
        ),
        (
            "output { name: \"OUTPUT__2\" }".to_owned(),
            Some(SIGNATURE),
            "the call returns no `OUTPUT__2`; it returns scores, OUTPUT__1",
        ),
        (
            String::new(),
            Some("hydrozoa signature 1\ninput 0 tensor complex64 [1] x\n"),
            "elements of the input `x` are complex64, which no request can have",
        ),
        (
            "max_batch_size: 2".to_owned(),
            Some("hydrozoa signature 1\ninput 0 tensor int8 [] x\n"),
            "the input `x` has no extents, and so none of a batch",
        ),
    ] {
        let problem = planned(&config, signature).unwrap_err();
        assert!(problem.contains(words), "{config}: {problem}");
    }
}

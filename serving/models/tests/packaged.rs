//! Packages as models: what they get, and what becomes of what they return.

mod common;

use bytes::BytesMut;
use common::packages::{example, floats, integers, load, package, put, request, tensor};
use common::{Repository, SOURCES, failure, response, venv};
use hydrozoa::package::build::{Profile, Recipe, Verdict};
use hydrozoa_models::{
    DataType, Input, LoadError, Model, Request, Watch, decode_bytes, encode_bytes,
};
use std::fs;
use std::time::Duration;

/// Name, type and extents of inputs and outputs.
fn described(model: &Model) -> String {
    let all = model.config().inputs().iter().chain(model.config().outputs());
    let all: Vec<_> =
        all.map(|one| format!("{} {} {:?}", one.name, one.data_type, one.dims)).collect();
    all.join(", ")
}

#[test]
fn a_package_is_served_without_a_configuration() {
    let repository = Repository::new();
    let model = load(&repository, "scores", "");
    let expected = "x FP32 [2, 3], lengths FP32 [2], scores FP32 [2, 4], sums FP32 [2]";
    assert_eq!(described(&model), expected);
    assert_eq!((model.config().backend(), model.config().file_name()), ("package", "model.pt"));
    let bits = fs::read(package("scores.expected")).unwrap();
    for _ in 0..3 {
        let response = response(&model, example()).unwrap();
        let names: Vec<_> = response.outputs.iter().map(|output| &*output.name).collect();
        assert_eq!(names, ["scores", "sums"]);
        let found: Vec<u8> =
            response.outputs.iter().flat_map(|output| output.data.to_vec()).collect();
        assert_eq!(found, bits, "other bits than the model in plain Python");
    }
    // Only what is asked for.
    let some = Request { outputs: vec!["sums".to_owned()], ..example() };
    let response = response(&model, some).unwrap();
    assert_eq!((response.outputs.len(), &*response.outputs[0].name), (1, "sums"));
    assert_eq!(response.outputs[0].data, bits[32..]);
    let statistics = model.statistics();
    assert_eq!((statistics.success, statistics.failed, statistics.executions), (4, 0, 4));
}

#[test]
fn a_configuration_and_a_package_of_both_kinds_of_files() {
    let repository = Repository::new();
    // A configuration may free an extent and name outputs by their places; the package knows the rest.
    let config = r#"
input [ { name: "x" dims: [ -1, 3 ] }, { name: "IN__2" dims: [ -1 ] } ]
output [ { name: "SUMS__1" dims: [ -1 ] } ]
version_policy { all {} }
"#;
    put(&repository, "scores", 2, config, &package("scores.pt"));
    // A Python model may load a package of the same name itself.
    repository.write("scores", 1, config, "raise ImportError('I am Python')");
    fs::copy(package("scores.pt"), repository.path().join("scores/1/model.pt")).unwrap();
    let error = repository.server.load("scores").unwrap_err().to_string();
    assert!(error.contains("version 1: ImportError: I am Python"), "{error}");
    fs::remove_file(repository.path().join("scores/1/model.py")).unwrap();
    repository.server.load("scores").unwrap();
    assert_eq!(repository.server.versions("scores"), [1, 2]);
    let model = repository.server.model("scores", None).unwrap();
    let one = [tensor("x", &[1, 3], &[0.0, 1.0, 2.0]), tensor("IN__2", &[1], &[1.0])];
    let response = response(&model, request(one.into())).unwrap();
    let bits = fs::read(package("scores.expected")).unwrap();
    let expected = f32::from_le_bytes(bits[32..36].try_into().unwrap());
    assert!((floats(&response, "SUMS__1")[0] - expected).abs() < 1e-6);
}

#[test]
fn instances_have_the_weights_at_one_address() {
    let repository = Repository::new();
    let model = load(&repository, "addresses", "instance_group { count: 2 }");
    let ask = || {
        let found = response(&model, request(vec![tensor("x", &[1], &[0.0])])).unwrap();
        integers(&found, "OUTPUT__0")
    };
    let [one, other] = std::thread::scope(|scope| {
        let both = [scope.spawn(ask), scope.spawn(ask)];
        both.map(|thread| thread.join().unwrap())
    });
    assert_eq!(one[0], other[0], "the weights are at two addresses");
    assert_ne!(one[1], other[1], "both answers are one object's");
}

#[test]
fn memory_is_lent_in_both_directions_and_what_a_model_keeps_is_copied() {
    let repository = Repository::new();
    let model = load(&repository, "keeps", "");
    let mut responses = Vec::new();
    for count in 2..6 {
        let input = tensor("x", &[1024], &[count as f32; 1024]);
        let sent = input.data.as_ptr().addr() as i64;
        let found = response(&model, request(vec![input])).unwrap();
        let addresses = integers(&found, "addresses");
        assert_eq!(addresses[0], sent, "the input was copied");
        let fresh = found.outputs.iter().find(|output| output.name == "fresh").unwrap();
        assert_eq!(addresses[1], fresh.data.as_ptr().addr() as i64, "the output was copied");
        responses.push((count, found));
    }
    // The example was called twice: to describe it, and by the instance.
    for (count, response) in responses {
        assert_eq!(floats(&response, "kept"), [count as f32 + 1.0; 4]);
        assert_eq!(floats(&response, "view"), [count as f32 + 1.0; 3]);
        assert_eq!(floats(&response, "fresh"), [2.0 * count as f32; 1024]);
    }
}

#[test]
fn requests_to_a_package_are_joined_and_their_answers_parted() {
    let repository = Repository::new();
    let model = load(&repository, "batches", "max_batch_size: 8 dynamic_batching { }");
    assert_eq!(described(&model), "x FP32 [3], OUTPUT__0 FP32 [3], OUTPUT__1 INT64 [1]");
    let ask = |value: usize| {
        let rows = 1 + value % 2;
        let values = vec![value as f32; rows * 3];
        let response = response(&model, request(vec![tensor("x", &[rows as i64, 3], &values)]));
        let response = response.unwrap();
        assert_eq!(floats(&response, "OUTPUT__0"), vec![2.0 * value as f32; rows * 3]);
        let shapes: Vec<_> = response.outputs.iter().map(|output| output.shape.clone()).collect();
        assert_eq!(shapes, [[rows as i64, 3], [rows as i64, 1]]);
        integers(&response, "OUTPUT__1")[0]
    };
    let sizes = std::thread::scope(|scope| {
        let first = scope.spawn(|| ask(0));
        while model.statistics().executions == 0 {
            std::thread::yield_now();
        }
        let others: Vec<_> = (1..6).map(|value| scope.spawn(move || ask(value))).collect();
        assert_eq!(first.join().unwrap(), 1);
        others.into_iter().map(|other| other.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(sizes, [8; 5], "2 + 1 + 2 + 1 + 2 rows were not one batch");
    assert_eq!((model.statistics().executions, model.statistics().inferences), (2, 9));
}

#[test]
fn a_package_without_torch_is_served_with_arrays_and_texts() {
    let repository = Repository::new();
    let config = "input [ { name: \"texts\" dims: [ -1, 2 ] }, { name: \"number\" dims: [ -1, 2 ] } ]
        output [ { name: \"joined\" dims: [ -1, 1 ] }, { name: \"sums\" dims: [ -1 ] }, { name: \"torch\" } ]";
    let model = load(&repository, "texts", config);
    let expected = "texts BYTES [-1, 2], number INT16 [-1, 2], joined BYTES [-1, 1], sums INT64 [-1], torch BOOL [1]";
    assert_eq!(described(&model), expected);
    let texts = encode_bytes(["grüß".as_bytes(), b"dich", b"", b"x"]);
    let number: BytesMut = [1_i16, 2, 3, -4].iter().flat_map(|one| one.to_le_bytes()).collect();
    let input = |name: &str, data_type, data| Input {
        name: name.to_owned(),
        data_type,
        shape: vec![2, 2],
        data,
    };
    let inputs =
        vec![input("texts", DataType::Bytes, texts), input("number", DataType::Int16, number)];
    let response = response(&model, request(inputs)).unwrap();
    let joined = decode_bytes(&response.outputs[0].data).unwrap();
    assert_eq!(joined, ["grüß dich".as_bytes(), b" x"]);
    assert_eq!(integers(&response, "sums"), [3, -1]);
    assert_eq!(&response.outputs[2].data[..], [0], "torch was imported");
}

#[test]
fn elements_that_numpy_lacks_and_rows_that_are_no_memory_s_order() {
    let repository = Repository::new();
    let model = load(&repository, "half", "");
    assert_eq!(described(&model), "x BF16 [2, 3], OUTPUT__0 BF16 [3, 2]");
    // The upper halves of singles: 1 to 6.
    let bits = |values: [f32; 6]| -> BytesMut {
        values.iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
    };
    let data = bits([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let input = Input { name: "x".to_owned(), data_type: DataType::Bf16, shape: vec![2, 3], data };
    let response = response(&model, request(vec![input])).unwrap();
    assert_eq!(response.outputs[0].data, bits([2.0, 8.0, 4.0, 10.0, 6.0, 12.0]));
}

#[test]
fn wrong_shapes_and_types_do_not_reach_the_package() {
    let repository = Repository::new();
    let model = load(&repository, "scores", "");
    let x = || tensor("x", &[2, 3], &[0.0; 6]);
    let lengths = || tensor("lengths", &[2], &[0.0; 2]);
    let integers = Input { data_type: DataType::Int32, ..lengths() };
    for (inputs, words) in [
        (vec![x()], "missing required input(s) ['lengths']"),
        (vec![tensor("x", &[3, 2], &[0.0; 6]), lengths()], "Expected [2,3], got [3,2]"),
        (vec![tensor("x", &[2, 3], &[0.0; 5]), lengths()], "Expected 24, got 20"),
        (vec![x(), integers], "data-type is 'INT32', but model 'scores' expects 'FP32'"),
        (
            vec![x(), lengths(), tensor("detailed", &[1], &[0.0])],
            "unexpected inference input 'detailed'",
        ),
    ] {
        let message = failure(&model, request(inputs));
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(model.statistics().executions, 0);
    // An error that only the call finds is its exception, and the next request is served.
    let free = "input [ { name: \"x\" dims: [ -1, 3 ] }, { name: \"lengths\" dims: [ -1 ] } ]
        output { name: \"sums\" dims: [ -1 ] }";
    let model = load(&repository, "scores", free);
    let message = failure(&model, request(vec![x(), tensor("lengths", &[5], &[0.0; 5])]));
    assert!(message.contains("Failed to process the request(s) for model 'scores'"), "{message}");
    assert!(message.contains("RuntimeError: The size of tensor a (2)"), "{message}");
    assert!(response(&model, example()).is_ok());
}

#[test]
fn a_package_that_cannot_be_served_says_why_and_what_to_do() {
    let repository = Repository::new();
    let whole = fs::read(package("scores.pt")).unwrap();
    let cut = package("cut.pt");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let x = "input { name: \"x\" data_type: TYPE_FP32 dims: 3 }";
    for (name, file, config, words) in [
        (
            "silent",
            "silent.pt",
            "",
            "model.pt: the package has no example, and the model's configuration names no inputs and outputs; build it again with the arguments of a call (`hydrozoa package build MODULE:FUNCTION`",
        ),
        (
            "lists",
            "lists.pt",
            "",
            "its example says nothing of its call (TypeError: the argument images is a list; a request has tensors and arrays only",
        ),
        ("fails", "fails.pt", "", "RuntimeError: not today"),
        (
            "runs",
            "fails.pt",
            &format!("{x} output {{ name: \"OUTPUT__0\" data_type: TYPE_FP32 dims: 1 }}"),
            "failed to run warmup sample 'example': RuntimeError: not today",
        ),
        ("cut", "cut.pt", "", "is truncated or damaged"),
        (
            "type",
            "scores.pt",
            "input [ { name: \"x\" data_type: TYPE_INT8 }, { name: \"lengths\" } ]",
            "the input `x` is TYPE_FP32 in the package, and TYPE_INT8 in the configuration",
        ),
        (
            "result",
            "silent.pt",
            &format!(
                "{x} output {{ name: \"scores\" data_type: TYPE_FP32 dims: 1 }} default_model_filename: \"other.pt\""
            ),
            "model.pt",
        ),
        (
            "decoupled",
            "scores.pt",
            "model_transaction_policy { decoupled: true }",
            "model_transaction_policy: a package answers each request once",
        ),
        (
            "sequences",
            "scores.pt",
            "max_batch_size: 2 sequence_batching { }",
            "sequence_batching: a package keeps no state",
        ),
        (
            "gpu",
            "texts.pt",
            "instance_group { kind: KIND_GPU }",
            "instance_group.kind: a package that declares no torch runs on the processor",
        ),
        (
            "ragged",
            "scores.pt",
            "max_batch_size: 2 input { name: \"x\" allow_ragged_batch: true }",
            "input.allow_ragged_batch: requests to a package are joined",
        ),
    ] {
        put(&repository, name, 1, config, &package(file));
        if name == "result" {
            let error = repository.server.load(name).unwrap_err();
            assert!(matches!(error, LoadError::NoVersion { .. }), "{error}");
            continue;
        }
        let error = repository.server.load(name).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(name), "{name}: {error}");
    }
}

#[test]
fn an_output_that_is_not_there_is_told_to_who_loads_or_asks() {
    let repository = Repository::new();
    // Without an example only the first request can find it out.
    let config = |output: &str| {
        format!(
            "input {{ name: \"x\" data_type: TYPE_FP32 dims: [ -1, 3 ] }} output {{ name: \"{output}\" data_type: TYPE_FP32 dims: [ -1, 3 ] }}"
        )
    };
    put(&repository, "silent", 1, &config("scores"), &package("silent.pt"));
    repository.server.load("silent").unwrap();
    let model = repository.server.model("silent", None).unwrap();
    let ask = || request(vec![tensor("x", &[1, 3], &[1.0, 2.0, 3.0])]);
    let message = failure(&model, ask());
    assert!(
        message.contains("the call has returned no scores; it has returned OUTPUT__0, OUTPUT__1"),
        "{message}"
    );
    put(&repository, "silent", 1, &config("ANY__1"), &package("silent.pt"));
    repository.server.load("silent").unwrap();
    let model = repository.server.model("silent", None).unwrap();
    let message = failure(&model, ask());
    assert!(
        message.contains("the output ANY__1 is INT64, and the configuration has FP32"),
        "{message}"
    );
    put(&repository, "silent", 1, &config("ANY__0"), &package("silent.pt"));
    repository.server.load("silent").unwrap();
    let model = repository.server.model("silent", None).unwrap();
    assert_eq!(floats(&response(&model, ask()).unwrap(), "ANY__0"), [2.0, 4.0, 6.0]);
}

#[test]
fn a_build_with_batches_is_served_in_batches() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("doubles.pt");
    let pool = hydrozoa::Pool::builder().interpreters(2).venv(venv()).build().unwrap();
    let mut recipe = Recipe::new("served:batches");
    recipe.paths = vec![SOURCES.into()];
    recipe.search = Duration::ZERO;
    recipe.profile = Profile::Recorded;
    recipe.max_batch_size = 4;
    recipe.free = vec![("x".to_owned(), 1), ("OUTPUT__0".to_owned(), 1)];
    let report = pool.build_package(&recipe, &file).unwrap();
    assert_eq!(report.verdict, Verdict::Same);
    let text = "hydrozoa signature 1\nbatch 4\ninput 0 tensor float32 [-1,-1] x\noutput tensor float32 [-1,-1] OUTPUT__0\noutput tensor int64 [-1] OUTPUT__1\n";
    assert_eq!(report.signature.as_ref().unwrap().to_string(), text);
    for (target, batch, free, words) in [
        (
            "served:mixes",
            4,
            None,
            "becomes `tensor float32 [4,4] OUTPUT__0`: only its first extent may change",
        ),
        (
            "served:batches",
            4,
            Some(("y", 1)),
            "y is neither an input nor an output; x, OUTPUT__0, OUTPUT__1",
        ),
        ("served:batches", 4, Some(("x", 2)), "x has 2 extents, and none at 2"),
        ("served:Batches", 4, None, "batches and free extents are those of an example"),
    ] {
        let mut wrong = recipe.clone();
        wrong.profile = Profile::Without;
        wrong.target = target.to_owned();
        wrong.max_batch_size = batch;
        wrong.free = free.iter().map(|(name, place)| ((*name).to_owned(), *place)).collect();
        let other = folder.path().join("other.pt");
        let error = pool.build_package(&wrong, &other).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(!other.exists(), "{target} was written");
    }
    drop(pool);
    let repository = Repository::new();
    let profile = report.imports.unwrap();
    assert_eq!(repository.server.add_package(&file, 2).unwrap(), "doubles");
    repository.server.load("doubles").unwrap();
    let model = repository.server.model("doubles", None).unwrap();
    assert_eq!(described(&model), "x FP32 [-1], OUTPUT__0 FP32 [-1], OUTPUT__1 INT64 [1]");
    let config = model.config();
    assert!(config.max_batch_size() == 4 && config.dynamic_batching().is_some());
    assert_eq!(config.instance_groups()[0].count, 2);
    let found = response(&model, request(vec![tensor("x", &[2, 2], &[1.0, 2.0, 3.0, 4.0])]));
    assert_eq!(floats(&found.unwrap(), "OUTPUT__0"), [2.0, 4.0, 6.0, 8.0]);
    // The profile that the package carries is used.
    let pool = model.pool().unwrap();
    let session = pool.acquire().unwrap();
    let imported: Vec<String> =
        session.eval("list(__import__('sys').modules)").unwrap().extract().unwrap();
    let absent = profile.left_out().filter(|name| !imported.iter().any(|one| one == name)).count();
    assert!(absent > 300, "all but {absent} of the modules that the profile leaves out are there");
}

#[test]
fn a_file_alone_is_a_model_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("alone.v2.pt");
    fs::copy(package("scores.pt"), &file).unwrap();
    let repository = Repository::new();
    let server = &repository.server;
    assert_eq!(server.add_package(&file, 1).unwrap(), "alone.v2");
    let error = server.add_package("elsewhere/alone.v2.pt", 1).unwrap_err();
    assert!(matches!(error, LoadError::Twice { .. }));
    let words = error.to_string();
    assert!(
        words.contains("there are two models `alone.v2`") && words.contains("elsewhere"),
        "{words}"
    );
    for name in [".pt", "..", "/"] {
        let error = server.add_package(name, 1).unwrap_err();
        assert!(matches!(error, LoadError::Unnamed { .. }), "{name}");
        assert!(error.to_string().contains("name the file as the model, such as resnet18.pt"));
    }
    assert_eq!(server.names(), ["alone.v2"]);
    let mut watch = Watch::default();
    assert_eq!(watch.look(server).changed, ["alone.v2"]);
    assert!(watch.look(server).changed.is_empty());
    server.load("alone.v2").unwrap();
    assert_eq!(server.versions("alone.v2"), [1]);
    assert!(response(&server.model("alone.v2", None).unwrap(), example()).is_ok());
    // Another file of the same size and time.
    let new = folder.path().join("new");
    fs::copy(&file, &new).unwrap();
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
    fs::rename(&new, &file).unwrap();
    assert_eq!(watch.look(server).changed, ["alone.v2"]);
    // A folder of the same name says nothing of what serves, and is told to who loads.
    let folder = repository.path().join("alone.v2");
    fs::create_dir(&folder).unwrap();
    let seen = watch.look(server);
    assert!(seen.gone.is_empty() && seen.changed.is_empty(), "{seen:?}");
    assert!(matches!(server.load("alone.v2"), Err(LoadError::Twice { .. })));
    fs::remove_dir(folder).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(watch.look(server).gone, ["alone.v2"]);
    let error = server.load("alone.v2").unwrap_err().to_string();
    assert!(error.contains("cannot open the package"), "{error}");
    assert!(response(&server.model("alone.v2", None).unwrap(), example()).is_ok());
}

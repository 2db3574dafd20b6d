//! Packages on GPUs. Where torch sees none, the tests check what whoever asks for one is told.

mod common;

use common::packages::{example, floats, integers, package, put, request, tensor};
use common::{Repository, floats_of, response, venv};
use hydrozoa_models::{LoadError, Model};
use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

fn sees_gpu() -> bool {
    static SEES: OnceLock<bool> = OnceLock::new();
    *SEES.get_or_init(|| {
        let mut python = Command::new(venv().join("bin/python"));
        let code = "import sys, torch; sys.exit(not torch.cuda.is_available())";
        python.args(["-W", "ignore", "-c", code]).status().unwrap().success()
    })
}

/// Checks the error's words, where torch sees no GPU.
fn assert_names_device(error: &LoadError) {
    let words = error.to_string();
    for word in ["cuda:0", "CUDA", ".pt", ".storage"] {
        assert!(words.contains(word), "{words} lacks {word}");
    }
}

fn is_right(model: &Model) -> bool {
    let bits = fs::read(package("scores.expected")).unwrap();
    let expected = floats_of(&bits);
    let response = response(model, example()).unwrap();
    let found = [floats(&response, "scores"), floats(&response, "sums")].concat();
    // A GPU adds in another order.
    assert_eq!(found.len(), expected.len());
    found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-4)
}

/// Where two instances that work at once have their weights.
fn addresses(model: &Model) -> [i64; 2] {
    let ask = || {
        let found = response(model, request(vec![tensor("x", &[1], &[0.0])])).unwrap();
        integers(&found, "OUTPUT__0")[0]
    };
    thread::scope(|scope| {
        let both = [scope.spawn(ask), scope.spawn(ask)];
        both.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn instances_on_a_gpu_have_the_weights_there_once() {
    let repository = Repository::new();
    let group = |count: u32| format!("instance_group {{ count: {count} kind: KIND_GPU }}");
    put(&repository, "scores", 1, &group(2), &package("scores.pt"));
    put(&repository, "addresses", 1, &group(2), &package("addresses.pt"));
    if !sees_gpu() {
        put(&repository, "scores", 1, &group(1), &package("scores.pt"));
        assert_names_device(&repository.server.load("scores").unwrap_err());
        // The model serves when its configuration asks for what there is.
        put(&repository, "scores", 1, "instance_group { kind: KIND_CPU }", &package("scores.pt"));
        repository.server.load("scores").unwrap();
        assert!(is_right(&repository.server.model("scores", None).unwrap()));
        return;
    }
    repository.server.load("scores").unwrap();
    let model = repository.server.model("scores", None).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!((0..20).all(|_| is_right(&model))));
        }
    });
    repository.server.load("addresses").unwrap();
    let [one, other] = addresses(&repository.server.model("addresses", None).unwrap());
    assert_eq!(one, other, "the weights were uploaded twice");
}

#[test]
fn instances_of_one_package_may_be_on_the_processor_and_on_a_gpu() {
    let repository = Repository::new();
    let groups = "instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU gpus: 0 } ]";
    put(&repository, "addresses", 1, groups, &package("addresses.pt"));
    let loaded = repository.server.load("addresses");
    if !sees_gpu() {
        return assert_names_device(&loaded.unwrap_err());
    }
    loaded.unwrap();
    let [one, other] = addresses(&repository.server.model("addresses", None).unwrap());
    assert_ne!(one, other, "main memory and the GPU's are one");
}

#[test]
fn a_file_alone_has_its_instances_where_the_caller_says() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::new();
    let server = &repository.server;
    for (name, gpus) in [("here", &[][..]), ("there", &[0])] {
        let file = folder.path().join(format!("{name}.pt"));
        fs::copy(package("scores.pt"), &file).unwrap();
        server.add_package_on(&file, 1, gpus).unwrap();
    }
    server.load("here").unwrap();
    let model = server.model("here", None).unwrap();
    assert_eq!(model.config().json()["instance_group"][0]["kind"], "KIND_CPU");
    assert!(is_right(&model));
    let loaded = server.load("there");
    if !sees_gpu() {
        return assert_names_device(&loaded.unwrap_err());
    }
    loaded.unwrap();
    let model = server.model("there", None).unwrap();
    let group = &model.config().json()["instance_group"][0];
    assert_eq!((&group["kind"], &group["gpus"]), (&"KIND_GPU".into(), &[0].into()));
    assert!(is_right(&model));
}

#[test]
fn kind_model_is_where_the_package_was_saved() {
    let repository = Repository::new();
    put(&repository, "scores", 1, "instance_group { kind: KIND_MODEL }", &package("scores.pt"));
    repository.server.load("scores").unwrap();
    assert!(is_right(&repository.server.model("scores", None).unwrap()));
}

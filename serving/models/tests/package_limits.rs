//! Packages that do not end, that do not react, and that take too much memory.

mod common;

use common::packages::{floats, load, package, put, request, tensor};
use common::{Repository, parameter, response, until};
use hydrozoa_models::{Failure, LoadError, Model, Response};

/// Has the package do something.
fn with(case: u32, model: &Model) -> Result<Response, Failure> {
    response(model, request(vec![tensor("case", &[1], &[case as f32])]))
}

/// How often this copy of the object was called.
fn answer(model: &Model) -> Vec<f32> {
    floats(&with(0, model).unwrap(), "OUTPUT__0")
}

#[test]
fn a_package_is_interrupted_and_a_stuck_instance_of_it_is_replaced() {
    let repository = Repository::new();
    let model = load(&repository, "misbehaves", &parameter("EXECUTION_LIMIT", "0.3"));
    let calls = answer(&model)[0];
    let failure = with(1, &model).unwrap_err();
    assert!(failure.message.ends_with("limit of 300ms, and was interrupted"), "{failure}");
    assert_eq!(answer(&model)[0], calls + 1.0, "the instance is the first still");
    assert_eq!((model.replacements(), model.instances()[0].restarts), (0, 0));
    // In C without the GIL, and with it.
    for (count, case) in [(1, 2), (2, 3)] {
        let failure = with(case, &model).unwrap_err();
        assert!(failure.message.ends_with("the instance is replaced"), "{failure}");
        // The work that goes on in the former interpreter no longer counts as the instance's.
        assert_eq!(model.instances()[0].executing, None);
        assert!(answer(&model)[0] <= calls, "the next instance has a copy of its own");
        until("ready again", || model.is_ready());
        let instance = &model.instances()[0];
        assert_eq!((model.replacements(), instance.restarts), (count, count));
        assert_eq!((instance.executing, instance.requests), (None, 0));
    }
    // A later package takes over the interpreters that there are now.
    let pool = model.pool().unwrap();
    let config = parameter("EXECUTION_LIMIT", "0.3");
    put(&repository, "misbehaves", 1, &config, &package("misbehaves.pt"));
    repository.server.load("misbehaves").unwrap();
    let next = repository.server.model("misbehaves", None).unwrap();
    let same = next.pool().unwrap().interpreters()[0].domain().id();
    assert_eq!(same, pool.interpreters()[0].domain().id());
    assert!(answer(&next)[0] <= calls);
    assert_eq!(next.instances()[0].restarts, 2);
}

#[test]
fn a_package_that_leaks_meets_its_ceiling_and_is_replaced() {
    let repository = Repository::new();
    let model = load(&repository, "misbehaves", &parameter("MEMORY_LIMIT", "100000000"));
    let calls = answer(&model)[0];
    let failure = with(4, &model).unwrap_err();
    assert!(failure.message.contains("MemoryError"), "{failure}");
    assert!(answer(&model)[0] <= calls, "another instance");
    until("ready again", || model.is_ready());
    assert_eq!((model.replacements(), model.instances()[0].restarts), (1, 1));
}

#[test]
fn a_package_that_does_not_load_in_time_leaves_what_serves_alone() {
    let repository = Repository::new();
    let config = parameter("INITIALIZATION_LIMIT", "4");
    let model = load(&repository, "misbehaves", &config);
    let pool = model.pool().unwrap();
    let server = &repository.server;
    let replaced = |file: &str| {
        put(&repository, "misbehaves", 1, &config, &package(file));
        server.load("misbehaves")
    };
    for (file, words) in [
        ("loops.pt", "`load` has exceeded its limit of 4s; raise"),
        ("sleeps.pt", "`load` has exceeded its limit of 4s, and does not react"),
    ] {
        let error = replaced(file).unwrap_err();
        assert!(matches!(error, LoadError::Late { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(answer(&model).len(), 1, "it serves behind {file}");
    }
    assert!(pool.interpreters()[0].is_stuck());
    // The next one does not take over an interpreter that is stuck.
    replaced("misbehaves.pt").unwrap();
    let next = server.model("misbehaves", None).unwrap();
    let new = next.pool().unwrap().interpreters()[0].domain().id();
    assert_ne!(new, pool.interpreters()[0].domain().id());
    assert_eq!(answer(&next).len(), 1);
}

#[test]
fn a_package_imports_by_a_profile_that_is_recorded_at_its_load() {
    let repository = Repository::new();
    let modules = |model: &Model| {
        let pool = model.pool().unwrap();
        let session = pool.acquire().unwrap();
        session.eval("len(__import__('sys').modules)").unwrap().extract::<usize>().unwrap()
    };
    let eager = load(&repository, "misbehaves", "");
    put(&repository, "recorded", 1, &parameter("IMPORTS", "recorded"), &package("misbehaves.pt"));
    repository.server.load("recorded").unwrap();
    let recorded = repository.server.model("recorded", None).unwrap();
    assert_eq!(answer(&recorded).len(), 1);
    let (all, needed) = (modules(&eager), modules(&recorded));
    assert!(needed + 10 < all, "{needed} of {all} modules");
}

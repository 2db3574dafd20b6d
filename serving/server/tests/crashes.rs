//! A model whose native code crashes, over HTTP.

mod common;

use common::{ECHO, FLOATS, Site, crashes, floats, until};
use std::fs;
use std::time::{Duration, Instant};

fn request(value: f32) -> String {
    floats(&[1, 1], &[value]).to_string()
}

#[test]
fn a_crash_is_status_500_with_the_model_s_name_and_the_model_is_unready_until_it_is_replaced() {
    let site = Site::new();
    site.model("healthy", FLOATS, ECHO);
    let gate = site.path().join("gate");
    let (config, model) = crashes(&gate);
    site.model("crashes", &config, &model);
    site.post("/v2/models/crashes/infer", request(1.0)).ok();
    site.get("/v2/health/ready").ok();
    fs::write(&gate, "").unwrap();
    let began = Instant::now();
    let words = site.post("/v2/models/crashes/infer", request(-1.0)).error(500);
    let head = "model 'crashes' (instance 'crashes_0_0') has crashed: SIGSEGV in interpreter 0 ";
    assert!(words.starts_with(head) && words.contains("string_at+0x"), "{words}");
    site.get("/v2/models/crashes/ready").error(400);
    let elapsed = began.elapsed();
    assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    assert_eq!(site.get("/v2/health/ready").status, 400);
    site.get("/v2/health/live").ok();
    let index = site.post("/v2/repository/index", "").json();
    let of = |name: &str| {
        let mut all = index.as_array().unwrap().iter();
        all.find(|model| model["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("crashes")["state"], &of("healthy")["state"]),
        (&"UNAVAILABLE".into(), &"READY".into())
    );
    let reason = of("crashes")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("'crashes") && !reason.is_empty(), "{reason}");
    site.get("/v2/models/healthy/ready").ok();
    site.post("/v2/models/healthy/infer", request(1.0)).ok();
    fs::remove_file(&gate).unwrap();
    until("readiness", || site.get("/v2/health/ready").status == 200);
    site.get("/v2/models/crashes/ready").ok();
    site.post("/v2/models/crashes/infer", request(2.0)).ok();
    let metrics = String::from_utf8(site.get("/metrics").body).unwrap();
    let line = |name: &str, count: u32| {
        let labels = format!("model=\"{name}\",version=\"1\",instance=\"{name}_0_0\"");
        format!("hydrozoa_instance_crashes_total{{{labels}}} {count}")
    };
    for line in [line("crashes", 1), line("healthy", 0)] {
        assert!(metrics.lines().any(|one| one == line), "no {line}:\n{metrics}");
    }
    let status = site.get("/status").ok();
    assert_eq!(status["models"][0]["instances"][0]["crashes"], 1);
}

#[test]
fn the_index_says_why_a_model_was_given_up_and_a_load_brings_it_back() {
    let site = Site::new();
    let (config, model) = crashes(&site.path().join("gate"));
    site.model("crashes", &config, &model);
    for _ in 0..5 {
        site.post("/v2/models/crashes/infer", request(-1.0)).error(500);
    }
    let index = || site.post("/v2/repository/index", "").json()[0].clone();
    let words = "given up, since it has crashed 5 times in a row";
    until("the end", || index()["reason"].as_str().is_some_and(|why| why.contains(words)));
    assert_eq!(index()["state"], "UNAVAILABLE");
    let refused = site.post("/v2/models/crashes/infer", request(1.0)).error(503);
    assert!(refused.contains(words), "{refused}");
    site.post("/v2/repository/models/crashes/load", "").ok_empty();
    assert_eq!(index()["state"], "READY");
    site.post("/v2/models/crashes/infer", request(1.0)).ok();
}

#[test]
fn a_load_that_crashes_fails_with_words_and_others_serve() {
    let site = Site::new();
    site.model("healthy", FLOATS, ECHO);
    let (config, _) = crashes(&site.path().join("gate"));
    site.write("broken", 1, &config, "import ctypes\nctypes.string_at(0)");
    let words = site.post("/v2/repository/models/broken/load", "").error(400);
    assert!(
        words.contains("model `broken`, version 1: its code has crashed: SIGSEGV in "),
        "{words}"
    );
    site.post("/v2/models/healthy/infer", request(1.0)).ok();
}

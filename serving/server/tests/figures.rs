//! The views for people and monitoring: the page, its figures as JSON, and metrics.

mod common;

use common::{Answer, ECHO, FLOATS, PATIENCE, Site, floats};
use hydrozoa_server::http::Limits;
use serde_json::Value;
use std::time::{Duration, Instant};

/// The least that each request to [`GATED`] takes.
const HELD: Duration = Duration::from_millis(10);

/// Waits for a file before it answers. A negative number makes it fail.
const GATED: &str = "
import os, time

class TritonPythonModel:
    def execute(self, requests):
        while not os.path.exists(os.path.join(pb_utils.get_model_dir(), 'open')):
            time.sleep(0.005)
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy()
            if array.min() < 0:
                raise ValueError('negative')
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]))
        return responses
";

/// A thread of the model has the GIL most of the time.
const BUSY: &str = "
import sys, threading

class TritonPythonModel:
    def initialize(self, args):
        sys.setswitchinterval(0.02)
        self.ends = False
        self.thread = threading.Thread(target=self.spin)
        self.thread.start()

    def spin(self):
        while not self.ends:
            pass

    def finalize(self):
        self.ends = True
        self.thread.join()

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(r, 'IN').as_numpy())])
                for r in requests]
";

fn one(value: f32) -> String {
    floats(&[1, 1], &[value]).to_string()
}

/// The first model of the status, when it is as it should be.
fn wait(site: &Site, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let model = site.get("/status").ok()["models"][0].clone();
        if is_so(&model) {
            return model;
        }
        assert!(Instant::now() < deadline, "{what}: {model:#}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn metrics(site: &Site) -> String {
    String::from_utf8(site.get("/metrics").body).unwrap()
}

/// The value of a metric.
fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}:\n{metrics}")).parse().unwrap()
}

#[test]
fn queues_and_executions_are_seen_while_they_last() {
    let site = Site::new();
    let config = format!(
        "{FLOATS} dynamic_batching {{ default_queue_policy {{ max_queue_size: 2 }} }}
         instance_group [ {{ name: \"only\" }} ]"
    );
    let config = config.replace("max_batch_size: 8", "max_batch_size: 1");
    site.model("gated", &config, GATED);
    let post = |value| site.post("/v2/models/gated/infer", one(value));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| post(1.0));
        wait(&site, "an execution", |model| model["instances"][0]["executing_requests"] == 1);
        let others = [scope.spawn(|| post(2.0)), scope.spawn(|| post(-1.0))];
        let seen = wait(&site, "two wait", |model| model["queue"]["length"] == 2);
        assert!(seen["queue"]["oldest_seconds"].as_f64().unwrap() > 0.0, "{seen:#}");
        let instance = &seen["instances"][0];
        assert_eq!(instance["name"], "only_0");
        assert!(instance["executing_seconds"].as_f64().unwrap() > 0.0, "{seen:#}");
        assert!(instance["load"].as_f64().unwrap() > 0.0, "{seen:#}");
        let text = metrics(&site);
        let labels = "{model=\"gated\",version=\"1\"";
        let of_instance = |name: &str| format!("{name}{labels},instance=\"only_0\"}}");
        assert_eq!(value(&text, &format!("nv_inference_pending_request_count{labels}}}")), 2.0);
        assert!(value(&text, &format!("hydrozoa_queue_oldest_seconds{labels}}}")) > 0.0);
        assert_eq!(value(&text, &of_instance("hydrozoa_instance_executing_requests")), 1.0);
        assert!(value(&text, &of_instance("hydrozoa_instance_executing_seconds")) > 0.0);
        assert!(value(&text, "hydrozoa_requests_under_way") >= 3.0);
        post(3.0).error(503);
        std::thread::sleep(HELD);
        std::fs::write(site.path().join("gated/1/open"), "").unwrap();
        first.join().unwrap().ok();
        others.into_iter().for_each(|other| drop(other.join().unwrap()));
    });
    let seen = wait(&site, "all have ended", |model| {
        model["queue"]["length"] == 0 && model["instances"][0]["executing_seconds"].is_null()
    });
    assert!(seen["queue"]["oldest_seconds"].is_null());
    let failures = serde_json::json!({ "rejected": 1, "canceled": 0, "backend": 1, "other": 0 });
    assert_eq!((&seen["success"], &seen["failures"]), (&Value::from(2), &failures));
    assert_eq!(seen["instances"][0]["executions"], 3);
    let request = &seen["last_minute"]["request"];
    assert_eq!(request["count"], 2);
    assert!(request["p99_seconds"].as_f64() >= request["p50_seconds"].as_f64());
    let text = metrics(&site);
    for (reason, count) in [("REJECTED", 1.0), ("CANCELED", 0.0), ("BACKEND", 1.0), ("OTHER", 0.0)]
    {
        let labels = format!("{{model=\"gated\",reason=\"{reason}\",version=\"1\"}}");
        let name = format!("nv_inference_request_failure{labels}");
        assert_eq!(value(&text, &name), count, "{reason}");
    }
    for (name, least) in [
        ("nv_inference_compute_input_duration_us", 1.0),
        ("nv_inference_compute_infer_duration_us", 1000.0),
        ("nv_inference_compute_output_duration_us", 1.0),
    ] {
        let name = format!("{name}{{model=\"gated\",version=\"1\"}}");
        assert!(value(&text, &name) >= least, "{name}:\n{text}");
    }
    let name = "nv_inference_request_summary_us";
    assert_eq!(value(&text, &format!("{name}_count{{model=\"gated\",version=\"1\"}}")), 2.0);
    let quantile = |quantile: &str| {
        value(&text, &format!("{name}{{model=\"gated\",version=\"1\",quantile=\"{quantile}\"}}"))
    };
    let held = HELD.as_micros() as f64;
    assert!(quantile("0.5") >= held && quantile("0.999") >= quantile("0.5"), "{text}");
    site.post("/v2/models/gated/infer", floats(&[2, 1], &[0.0; 2]).to_string()).error(400);
    wait(&site, "one does not fit", |model| model["failures"]["other"] == 1);
}

#[test]
fn interpreters_are_measured_now_and_then() {
    let site = Site::new();
    site.model("m", &format!("{FLOATS} instance_group [ {{ count: 2 }} ]"), ECHO);
    let measured =
        wait(&site, "the memory", |model| model["instances"][0]["private_bytes"].is_u64());
    for instance in measured["instances"].as_array().unwrap() {
        let bytes = instance["private_bytes"].as_u64().unwrap();
        // numpy and Python's own objects.
        assert!((1 << 20..200 << 20).contains(&bytes), "{measured:#}");
    }
    let status = site.get("/status").ok();
    let (private, resident) =
        (&status["memory"]["private_bytes"], &status["memory"]["resident_bytes"]);
    assert!(private.as_u64() < resident.as_u64() && private.as_u64() > Some(2 << 20), "{status:#}");
    // A second request at once gets the same figures, marked as older.
    let age = |text: &str| value(text, "hydrozoa_memory_age_seconds");
    let (first, second) = (metrics(&site), metrics(&site));
    assert!(age(&second) > age(&first), "{second}");
    let name = |number| {
        format!(
            "hydrozoa_instance_private_bytes{{model=\"m\",version=\"1\",instance=\"m_0_{number}\"}}"
        )
    };
    assert!(value(&first, &name(0)) > 1e6 && value(&first, &name(1)) > 1e6);
    assert_eq!(value(&first, &name(0)), value(&second, &name(0)));
}

#[test]
fn waits_for_a_gil_and_replaced_interpreters_are_counted() {
    let site = Site::new();
    site.model("busy", FLOATS, BUSY);
    // A thread that spins gives the GIL up after 20 ms, once the system has let it run.
    let seen = wait(&site, "a wait for the GIL", |model| {
        site.post("/v2/models/busy/infer", one(1.0)).ok();
        model["instances"][0]["gil_wait_seconds"].as_f64() > Some(0.02)
    });
    assert_eq!(seen["instances"][0]["restarts"], 0);
    let pool = site.service.server().model("busy", None).unwrap().pool().unwrap();
    pool.replace(0).unwrap();
    let text = metrics(&site);
    let labels = "{model=\"busy\",version=\"1\",instance=\"busy_0_0\"}";
    assert_eq!(value(&text, &format!("hydrozoa_instance_restarts_total{labels}")), 1.0);
    assert!(value(&text, &format!("hydrozoa_instance_gil_wait_seconds_total{labels}")) > 0.02);
}

/// The page as text.
fn page(site: &Site) -> (Answer, String) {
    let answer = site.get("/");
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.body.clone()).unwrap();
    (answer, text)
}

#[test]
fn people_have_a_page_that_loads_nothing_from_elsewhere() {
    let site = Site::new();
    let (answer, empty) = page(&site);
    assert!(empty.contains("The repositories have no models."), "{empty}");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let policy = answer.header("content-security-policy").unwrap();
    let directives: Vec<&str> = policy.split("; ").collect();
    for directive in [
        "default-src 'none'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(directives.contains(&directive), "{directive}: {policy}");
    }
    assert!(
        !policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"),
        "{policy}"
    );
    assert!(
        !empty.contains("http://") && !empty.contains("https://") && !empty.contains(" style=")
    );
    site.model("good", FLOATS, ECHO);
    site.write("not <b>yet", 1, FLOATS, ECHO);
    site.write("bad", 1, FLOATS, "raise ImportError('<script>alert(1)</script>')");
    site.service.server().load("bad").unwrap_err();
    let (_, full) = page(&site);
    for words in [
        "<h2>good</h2> <span class=\"quiet\">version 1</span> <span class=\"state good\">ready</span>",
        "<td>good_0_0</td>",
        "<h2>not &lt;b&gt;yet</h2>",
        "<span class=\"state quiet\">unloaded</span>",
        "<span class=\"state bad\">unavailable</span>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ] {
        assert!(full.contains(words), "{words}:\n{full}");
    }
    assert_eq!(full.matches("<script").count(), 1);
    let status = site.get("/status").ok();
    assert_eq!(
        (&status["ready"], &status["requests_under_way"]),
        (&Value::from(false), &Value::from(0))
    );
    let models = status["models"].as_array().unwrap();
    let states: Vec<_> = models
        .iter()
        .map(|model| [&model["name"], &model["state"]].map(|text| text.as_str().unwrap()))
        .collect();
    assert_eq!(states, [["bad", "UNAVAILABLE"], ["good", "READY"], ["not <b>yet", "UNLOADED"]]);
    assert!(models[0]["reason"].as_str().unwrap().contains("ImportError"), "{status:#}");
}

#[test]
fn there_is_no_page_if_there_should_be_none() {
    let site = Site::with(Limits::default(), |settings| settings.page = false);
    for path in ["/", "/status"] {
        site.get(path).error(404);
    }
    assert_eq!(site.get("/metrics").status, 200);
}

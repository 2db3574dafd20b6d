//! The counts of applications with prometheus_client, of the environment that HYDROZOA_TEST_WEB names.

use crate::client::get;
use crate::frameworks::{served_with, venv};
use crate::process::{PATIENCE, Server};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Reads a text by prometheus_client's own parser. A line for each sample.
const PARSER: &str = "import sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        labels = ','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))
        print(family.type, sample.name, labels, sample.value, sep='|')";

/// Values by `type|name|labels`.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    fn of(admin: SocketAddr) -> Self {
        let answer = get(admin, "/metrics");
        let kind = answer.header("content-type").unwrap();
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        let mut parser = Command::new(format!("{}/bin/python", venv()));
        parser.args(["-c", PARSER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut parser = parser.spawn().unwrap();
        parser.stdin.take().unwrap().write_all(&answer.body).unwrap();
        let output = parser.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", answer.text());
        let lines = String::from_utf8(output.stdout).unwrap();
        let values = lines.lines().map(|line| {
            let (series, value) = line.rsplit_once('|').unwrap();
            (series.to_owned(), value.parse().unwrap())
        });
        let mut all = BTreeMap::new();
        for (series, value) in values {
            assert!(all.insert(series.clone(), value).is_none(), "{series} twice");
        }
        Self(all)
    }

    fn value(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("{series}: {:#?}", self.0))
    }
}

const COUNT: &str = "counter|shop_requests_total|path=/";

fn start(application: &str) -> (Server, SocketAddr) {
    let server = served_with(application, &["--admin", "127.0.0.1:0"]);
    let admin = server.addresses("/healthz")[0];
    (server, admin)
}

fn ask(server: &Server, times: usize) {
    for _ in 0..times {
        assert_eq!(get(server.address(), "/").text(), "counted");
    }
}

#[test]
fn what_workers_count_is_one_and_goes_on_when_they_are_replaced() {
    for application in ["in_prometheus:application", "in_prometheus:asynchronous"] {
        let (server, admin) = start(application);
        ask(&server, 20);
        let scrape = Scrape::of(admin);
        for (series, value) in [
            (COUNT, 20.0),
            ("histogram|shop_sizes_count|", 20.0),
            ("histogram|shop_sizes_bucket|le=1.0", 0.0),
            ("histogram|shop_sizes_bucket|le=+Inf", 20.0),
            ("summary|shop_times_sum|", 10.0),
            ("gauge|shop_loaded|worker=1", 1.0),
            ("gauge|shop_loaded|worker=2", 1.0),
            ("gauge|shop_info|version=1,worker=2", 1.0),
            ("gauge|hydrozoa_web_workers_without_metrics|", 0.0),
        ] {
            assert_eq!(scrape.value(series), value, "{series}");
        }
        // The process's own figures are there once.
        assert!(scrape.value("gauge|process_open_fds|") > 1.0);
        assert!(!scrape.0.keys().any(|series| series.contains("_created")));
        server.signal("HUP");
        let end = Instant::now() + Duration::from_secs(20);
        while server.log.text().matches("is replaced").count() < 2 {
            assert_eq!(Scrape::of(admin).value(COUNT), 20.0);
            assert!(Instant::now() < end, "{}", server.log.text());
        }
        ask(&server, 5);
        assert_eq!(Scrape::of(admin).value(COUNT), 25.0);
        let (log, _) = server.end();
        assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    }
}

#[test]
fn a_worker_that_does_not_answer_is_counted_and_keeps_its_counts() {
    let (server, admin) = start("in_prometheus:application");
    ask(&server, 20);
    assert_eq!(Scrape::of(admin).value(COUNT), 20.0);
    let address = server.address();
    let stuck = std::thread::spawn(move || get(address, "/stuck").status);
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let scrape = Scrape::of(admin);
    assert!(began.elapsed() < Duration::from_millis(3500), "{:?}", began.elapsed());
    assert_eq!(scrape.value("gauge|hydrozoa_web_workers_without_metrics|"), 1.0);
    assert_eq!(scrape.value(COUNT), 20.0);
    let loaded = scrape.0.keys().filter(|series| series.contains("shop_loaded")).count();
    assert_eq!(loaded, 1, "{:#?}", scrape.0);
    assert_eq!(stuck.join().unwrap(), 200);
    // The question that had no answer may still be under way.
    let scrape = loop {
        let scrape = Scrape::of(admin);
        if scrape.value("gauge|hydrozoa_web_workers_without_metrics|") == 0.0 {
            break scrape;
        }
        assert!(began.elapsed() < PATIENCE, "the worker does not answer any more");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(scrape.value("counter|shop_requests_total|path=/stuck"), 1.0);
}

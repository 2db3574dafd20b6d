//! Many crashes of random kinds in one process, while three interpreters serve: what the others notice, and what each crash leaves.

mod common;
mod enduring;
mod pythons;

use common::venv;
use enduring::{Limits, MANY, Packages, crashes, endure};
use hydrozoa::Pool;
use hydrozoa_testkit::alone::alone;
use pythons::pythons;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(7200);

/// The most that the 99th percentile of others' latencies may grow, for so many crashes that one can tell.
fn assert_p99(ratio: f64, crashes: usize) {
    assert!(crashes < MANY || ratio <= 1.2, "{ratio}");
}

#[test]
fn crashes_of_random_kinds_leave_nothing_and_others_notice_nothing() {
    alone(PATIENCE, || {
        let builder = Pool::builder().python(pythons().values().next().unwrap());
        let measured = endure(&builder, Packages::None, crashes(20));
        measured.assert_within(&Limits { bytes: 64 << 10, whole: Duration::from_millis(500) });
        assert_p99(measured.p99(), measured.crashes);
    });
}

#[test]
fn crashes_with_numpy_leave_nothing_and_others_notice_nothing() {
    alone(PATIENCE, || {
        let measured = endure(&Pool::builder().venv(venv()), Packages::Numpy, crashes(8));
        measured.assert_within(&Limits { bytes: 256 << 10, whole: Duration::from_secs(1) });
        assert_p99(measured.p99(), measured.crashes);
    });
}

#[test]
fn crashes_with_torch_leave_little_and_others_notice_nothing() {
    alone(PATIENCE, || {
        let measured = endure(&Pool::builder().venv(venv()), Packages::Torch, crashes(2));
        measured.assert_within(&Limits { bytes: 1 << 20, whole: Duration::from_secs(2) });
        assert_p99(measured.p99(), measured.crashes);
    });
}

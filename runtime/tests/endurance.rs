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

/// `HYDROZOA_TEST_CRASHING` names packages that the interpreters use: the long forms of `cargo xtask lab crashes soak`.
#[test]
fn crashes_of_random_kinds_leave_nothing_and_others_notice_nothing() {
    alone(PATIENCE, || {
        let bare = || Pool::builder().python(pythons().values().next().unwrap());
        let with = || Pool::builder().venv(venv());
        let (builder, packages, bytes, whole) =
            match std::env::var("HYDROZOA_TEST_CRASHING").as_deref() {
                Ok("numpy") => (with(), Packages::Numpy, 256 << 10, Duration::from_secs(1)),
                Ok("torch") => (with(), Packages::Torch, 1 << 20, Duration::from_secs(2)),
                _ => (bare(), Packages::None, 64 << 10, Duration::from_millis(500)),
            };
        let measured = endure(&builder, packages, crashes(12));
        measured.assert_within(&Limits { bytes, whole });
        assert_p99(measured.p99(), measured.crashes);
    });
}

//! The Pythons that tests run on: one of each minor version that the machine has.

use hydrozoa::{Builder, Pool, python};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The libraries, by minor version. On a machine without any, every test fails.
pub fn pythons() -> &'static BTreeMap<u8, PathBuf> {
    static PYTHONS: OnceLock<BTreeMap<u8, PathBuf>> = OnceLock::new();
    PYTHONS.get_or_init(|| {
        let candidates = python::discover();
        let mut found = BTreeMap::new();
        for installation in candidates.iter().filter_map(|one| one.verdict.as_ref().ok()) {
            found.entry(installation.minor()).or_insert_with(|| installation.library().to_owned());
        }
        assert!(
            !found.is_empty(),
            "these tests need a shared CPython 3.10 or later, and there is none:\n{}",
            candidates.iter().map(|one| format!("  {one}\n")).collect::<String>()
        );
        found
    })
}

/// Settings of a small pool of each version.
#[allow(dead_code, reason = "not every test binary starts pools")]
pub fn builders(interpreters: usize) -> impl Iterator<Item = Builder> {
    pythons()
        .values()
        .map(move |library| Pool::builder().interpreters(interpreters).python(library))
}

/// A pool of each version, with so many interpreters.
#[allow(dead_code, reason = "not every test binary starts pools")]
pub fn pools(interpreters: usize) -> impl Iterator<Item = Pool> {
    builders(interpreters).map(|builder| builder.build().unwrap())
}

//! The Pythons that tests run on: one of each minor version that the machine has.

use hydrozoa::{Builder, Pool, Session, python};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix;
use std::path::{Path, PathBuf};
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
            "these tests need a shared CPython 3.10 or later, and found none:\n{}",
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

/// A pool of one version, with so many interpreters.
#[allow(dead_code, reason = "not every test binary starts pools")]
pub fn pool(interpreters: usize) -> Pool {
    pools(interpreters).next().unwrap()
}

/// Asserts that calls on the session are right.
#[allow(dead_code, reason = "not every test binary asserts it")]
#[track_caller]
pub fn works(session: &Session) {
    assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
}

/// Calls `test` with a session on each version.
#[allow(dead_code, reason = "not every test binary starts pools")]
pub fn each(test: impl Fn(&Session)) {
    for pool in pools(1) {
        test(&pool.acquire().unwrap());
    }
}

/// Calls `test` in a process of its own, with a pool of each version. The test function itself calls this.
#[allow(dead_code, reason = "not every test binary starts pools")]
pub fn each_pool_alone<F: Fn(Pool)>(interpreters: usize, test: F) {
    alone(PATIENCE, || pools(interpreters).for_each(test));
}

/// A virtual environment without packages, and its directory for them. Folders of the same name are used again.
#[allow(dead_code, reason = "most tests take installations as they are")]
pub fn without_packages(name: &str, minor: u8, library: &Path) -> (PathBuf, PathBuf) {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}/3.{minor}"));
    let packages = venv.join(format!("lib/python3.{minor}/site-packages"));
    fs::create_dir_all(&packages).unwrap();
    fs::create_dir_all(venv.join("bin")).unwrap();
    let installation = python::find(Some(library)).unwrap();
    let prefix = installation.prefix();
    let link = venv.join("bin/python");
    let _ = fs::remove_file(&link);
    unix::fs::symlink(prefix.join(format!("bin/python3.{minor}")), &link).unwrap();
    let settings =
        format!("home = {}/bin\ninclude-system-site-packages = false\n", prefix.display());
    fs::write(venv.join("pyvenv.cfg"), settings).unwrap();
    (venv, packages)
}

//! Autobahn's test suite of WebSockets, which needs CPython 2.7.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use super::server::{Contender, Running};
use super::suite::{Tests, asked};
use crate::cache::CacheFolder;
use crate::{digest, lock, venv};

/// Its program, from a folder of packages. Some of them are parts of one package, which only a folder of the site may be.
const WSTEST: &str = "import site, sys; site.addsitedir(sys.argv.pop(1)); from autobahntestsuite.wstest import run; run()";

/// Cases of compression that are left out, 132 of 517: a thousand messages of 16 KiB and more, for which this client takes minutes a
/// group. The first group has them.
fn left_out() -> Vec<String> {
    let groups = (2..=5).map(|group| format!("12.{group}"));
    let groups = groups.chain((1..=7).map(|group| format!("13.{group}")));
    groups.flat_map(|group| (7..=18).map(move |case| format!("{group}.{case}"))).collect()
}

/// A case's result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    behavior: String,
    behavior_close: String,
}

/// Runs all cases on a server that sends messages back.
pub fn run(running: &Running, contender: Contender) -> Result<Tests> {
    let python = python()?;
    let packages = packages(&python)?;
    let scratch = running.scratch.path();
    let specification = json!({
        "outdir": scratch.join("reports"),
        "servers": [{"agent": contender.name(), "url": format!("ws://127.0.0.1:{}", running.port())}],
        "cases": ["*"],
        "exclude-cases": left_out(),
        "exclude-agent-cases": {},
    });
    let path = scratch.join("specification.json");
    fs::write(&path, specification.to_string())?;
    let mut client = venv::clean(Command::new(&python));
    client
        .args(["-c", WSTEST])
        .arg(&packages)
        .args(["--mode", "fuzzingclient", "--spec"])
        .arg(path);
    asked(&mut client, running)?;
    let report = fs::read_to_string(scratch.join("reports/index.json")).context("the report")?;
    let report: BTreeMap<String, BTreeMap<String, Case>> = serde_json::from_str(&report)?;
    let cases = report.into_values().next().context("the report has a server")?;
    Ok(cases.into_iter().map(|(case, result)| (case, words(&result))).collect())
}

/// A result in this laboratory's words. An extension that the server does not offer is not tested.
fn words(case: &Case) -> String {
    let is_right = |behavior: &str| matches!(behavior, "OK" | "NON-STRICT" | "INFORMATIONAL");
    if case.behavior == "UNIMPLEMENTED" {
        "skipped".to_owned()
    } else if is_right(&case.behavior) && is_right(&case.behavior_close) {
        "passed".to_owned()
    } else {
        format!("failed: {}, {} at its close", case.behavior, case.behavior_close)
    }
}

/// The newest CPython 2.7 of pyenv, or that on PATH.
fn python() -> Result<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = root.map(|root| root.join("versions/2.7.*/bin/python2.7").display().to_string());
    let own = versions.and_then(|pattern| glob::glob(&pattern).ok());
    let own = own.into_iter().flatten().filter_map(Result::ok).max();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .filter(|folder| !folder.ends_with("shims"))
        .map(|folder| folder.join("python2.7"))
        .find(|path| path.exists());
    own.or(on_path).context("Autobahn's test suite needs CPython 2.7: pyenv install 2.7.18")
}

/// The folder with its packages, which an earlier run may have installed.
fn packages(python: &Path) -> Result<PathBuf> {
    let key = digest::of(&[lock::AUTOBAHN.as_bytes(), python.as_os_str().as_bytes()]);
    let entry = CacheFolder::open(&format!("autobahn-cp27-{key}"))?;
    entry.complete(|folder| {
        eprintln!("installing {} packages for CPython 2.7", lock::packages(lock::AUTOBAHN));
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, lock::AUTOBAHN)?;
        let mut pip = venv::clean(Command::new(python));
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target"]);
        let status = pip.arg(folder).arg("--requirement").arg(requirements).status();
        ensure!(status.context("starting pip")?.success(), "pip cannot install Autobahn's suite");
        Ok(())
    })?;
    Ok(entry.folder().to_owned())
}

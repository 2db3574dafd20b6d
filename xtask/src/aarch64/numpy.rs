//! numpy's own tests, those that it does not call slow.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::fetched;
use super::suites::Suite;
use super::system::System;
use crate::steps::Outcome;

/// numpy, and what its tests import.
const WHEELS: [&str; 8] = [
    "numpy==2.3.5",
    "pytest==9.0.2",
    "hypothesis==6.150.2",
    "iniconfig==2.3.0",
    "packaging==25.0",
    "pluggy==1.6.0",
    "pygments==2.19.2",
    "sortedcontainers==2.4.0",
];

/// Folders whose tests do not run, with reasons.
const LEFT: [(&str, &str); 2] = [
    ("f2py", "its tests compile what they test, for this machine"),
    ("typing", "its tests run mypy"),
];

/// About how many bytes of tests a process runs.
const SHARD: u64 = 400_000;

pub(super) fn run(system: &System) -> Result<Outcome> {
    let site = fetched::packages(system, "numpy", &WHEELS)?;
    let suite = Suite {
        name: "numpy-suite",
        options: format!("pytest --root {site} --marks 'not slow'"),
        variables: format!("PYTHONPATH={site}"),
        shards: shards(&system.inside(&site), &site)?,
        left: &LEFT,
    };
    suite.run(system)
}

/// The files of tests in the order of their paths, as the system has them, some on each line.
fn shards(outside: &Path, site: &str) -> Result<Vec<String>> {
    let pattern = outside.join("numpy/**/test_*.py");
    let mut files: Vec<PathBuf> =
        glob::glob(&pattern.to_string_lossy())?.collect::<Result<_, _>>()?;
    files.sort();
    let mut shards: Vec<String> = Vec::new();
    let mut room = 0;
    for file in files {
        let bytes =
            fs::metadata(&file).with_context(|| format!("reading {}", file.display()))?.len();
        let name = file.strip_prefix(outside)?;
        if name.components().any(|part| LEFT.iter().any(|(left, _)| part.as_os_str() == *left)) {
            continue;
        }
        let name = format!("{site}/{}", name.display());
        match shards.last_mut().filter(|_| bytes <= room) {
            Some(shard) => {
                *shard += &format!(" {name}");
                room -= bytes;
            }
            None => {
                shards.push(name);
                room = SHARD.saturating_sub(bytes);
            }
        }
    }
    Ok(shards)
}

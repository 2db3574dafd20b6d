//! `cargo xtask linker --shim DIR`: the test programs of glibc's own loader, run against ours.
//!
//! The programs are built from the sources in DIR and run unmodified, twice. The first run is under glibc alone; a
//! test that fails there does not apply. The second run preloads a shim that answers their `dl*` calls by this
//! loader. The repository keeps only names and flags of the sources.

mod build;
mod execute;
mod mold;
mod report;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use self::build::Tree;
use self::execute::{Loader, Verdict};
use self::report::Row;
use crate::cases::target;
use xtask_support::progress::Progress;
use xtask_support::workspace;

/// The tests of glibc 2.36.
const GLIBC: &str = include_str!("glibc.txt");

/// Runs the tests whose sources are under `sources` and whose name contains one of `only`.
pub(super) fn run(sources: &Path, only: &[String], table: Option<&Path>) -> anyhow::Result<()> {
    let tree = Tree {
        sources: sources.canonicalize().with_context(|| sources.display().to_string())?,
        products: target()?.join("linker-shim"),
    };
    let shim = build_shim()?;
    if mold::is_tree(&tree.sources) {
        return mold::run(&tree.sources, only, &shim, &tree.products);
    }
    tree.build_support()?;
    let mut rows = BTreeMap::new();
    for mut directory in table::parse(GLIBC)? {
        directory.programs.retain(|unit| {
            let chosen = only.iter().any(|only| unit.name.contains(only));
            only.is_empty() || unit.helper || chosen
        });
        let built = tree.build(&directory)?;
        let progress = Progress::new(&directory.name, directory.programs.len() as u64);
        for unit in directory.programs.iter().filter(|unit| !unit.helper) {
            progress.item(&unit.name);
            let row = match &built[&unit.name] {
                Err(reason) => Row::NotApplicable { reason: why_not_built(reason) },
                Ok(program) => {
                    let test = |loader| {
                        execute::run(
                            unit,
                            program,
                            &tree.directory(&directory.name),
                            &tree.sources.join(&directory.name),
                            loader,
                        )
                    };
                    match test(Loader::Glibc)? {
                        Verdict::Unsupported => {
                            Row::NotApplicable { reason: "it calls itself unsupported here".into() }
                        }
                        Verdict::Failed { how, .. } => {
                            Row::NotApplicable { reason: format!("fails under glibc alone: {how}") }
                        }
                        Verdict::Passed => match test(Loader::Shim(&shim))? {
                            Verdict::Passed => Row::Passed,
                            Verdict::Unsupported => {
                                Row::Failed { how: "calls itself unsupported".into() }
                            }
                            Verdict::Failed { how, output } => {
                                let last = output.lines().last().unwrap_or_default();
                                Row::Failed { how: format!("{how}: {last}") }
                            }
                        },
                    }
                }
            };
            rows.insert((directory.name.clone(), unit.name.clone()), row);
        }
        if only.is_empty() {
            for (name, reason) in &directory.excluded {
                let row = Row::NotApplicable { reason: reason.clone() };
                rows.insert((directory.name.clone(), name.clone()), row);
            }
        }
    }
    let unexplained = report::write(&rows, table)?;
    ensure!(unexplained == 0, "{unexplained} failures have no cause in causes.txt");
    Ok(())
}

/// The reason in a compiler's message about a test.
fn why_not_built(message: &str) -> String {
    let reason = message.rsplit_once("error: ").map_or(message, |(_, reason)| reason);
    if message.contains("link_map’ has no member named ‘l_") {
        return "it reads private fields of glibc's `struct link_map`".into();
    }
    format!("it needs glibc's own build: {reason}")
}

/// Builds the shim and returns its path.
fn build_shim() -> anyhow::Result<PathBuf> {
    let status = workspace::cargo()
        .args(["build", "--quiet", "--release", "--package", "hydrozoa-shim"])
        .status()
        .context("cargo")?;
    ensure!(status.success(), "the shim does not build");
    let shim = target()?.join("release/libhydrozoa_shim.so");
    ensure!(shim.is_file(), "{} was not built", shim.display());
    Ok(shim)
}

//! Cases: small libraries, each loaded by glibc and by the loader in one and in three copies.
//!
//! A case is one source file in `tests/linker/cases` with its expectations in comments ([`directives`]). [`build`]
//! builds it for every installed compiler and linker that it names. [`job`] runs it in processes of its own: by
//! glibc's `dlopen`, by the loader once, in three domains whose calls alternate on one thread, and in three domains
//! on three threads. [`judge`] compares the outputs and the meaning of the symbols' addresses.

mod build;
pub(super) mod directives;
pub(super) mod job;
pub(super) mod judge;
mod patch;

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};

use build::Toolchain;
pub(super) use build::{is_installed, speak_here};
use directives::Case;
use xtask_support::steps::{self, Count};
use xtask_support::{parallel, workspace};

/// Which cases to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only cases whose name or area contains one of these; all cases if the list is empty.
    pub names: Vec<String>,
    /// No case of these names.
    pub except: Vec<String>,
    /// The first compiler and linker of each case only.
    pub quick: bool,
    /// Only each one of so many of those.
    pub every: Option<NonZero<usize>>,
}

/// The result of one area.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    cases: usize,
    builds: usize,
    failed: usize,
    skipped: usize,
}

/// The result of one build of one case.
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Runs the cases and prints a count for each area. Returns the number of passed builds and the failed ones.
pub fn run(selection: &Selection) -> Result<steps::Outcome> {
    let sources = workspace::root().join("tests/linker");
    let root = target()?.join("linker-cases");
    let support = build::support(&sources, &root)?;
    let cases = select(&sources.join("cases"), selection)?;
    let work: Vec<(&Case, Toolchain)> = cases
        .iter()
        .flat_map(|case| toolchains(case, selection.quick).into_iter().map(move |t| (case, t)))
        .collect();
    let outcomes = Mutex::new(Vec::new());
    parallel::each(&work, |(case, toolchain)| {
        let outcome = one(case, toolchain, &root, &support);
        let name = format!("{} ({toolchain})", case.name);
        match &outcome {
            Outcome::Failed(reason) => println!("FAILED {name}: {reason}"),
            Outcome::Skipped(reason) => println!("skipped {name}: {reason}"),
            Outcome::Passed => {}
        }
        outcomes.lock().expect("no panic holds it").push((*case, toolchain, outcome));
        Ok(())
    })?;
    Ok(report(&outcomes.into_inner().expect("no panic holds it")))
}

/// Builds the cases, each with its first compiler and linker, and returns all of their libraries.
pub fn libraries() -> Result<Vec<PathBuf>> {
    let root = target()?.join("linker-cases");
    let folder = workspace::root().join("tests/linker/cases");
    let mut libraries = Vec::new();
    for case in select(&folder, &Selection::default())? {
        for toolchain in toolchains(&case, true) {
            if toolchain.is_installed() {
                let built = build::build(&case, &toolchain, &root)?;
                libraries.extend(case.libraries.iter().map(|library| built.join(&library.file)));
            }
        }
    }
    Ok(libraries)
}

/// The library that gives programs their output function under glibc, built in `root`.
pub(super) fn support(root: &Path) -> Result<PathBuf> {
    build::support(&workspace::root().join("tests/linker"), root)
}

/// `target`, wherever this executable is.
pub(super) fn target() -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    Ok(executable.ancestors().nth(2).context("an executable in a target folder")?.to_owned())
}

fn select(folder: &Path, selection: &Selection) -> Result<Vec<Case>> {
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    sources.sort();
    let cases = sources.iter().map(|source| Case::read(source)).collect::<Result<Vec<_>>>()?;
    for name in &selection.except {
        ensure!(cases.iter().any(|case| case.name == *name), "no case has the name {name}");
    }
    let wanted = |case: &Case| {
        let is_named =
            |name: &String| case.name.contains(name.as_str()) || case.area.contains(name.as_str());
        !selection.except.contains(&case.name)
            && (selection.names.is_empty() || selection.names.iter().any(is_named))
    };
    let every = selection.every.map_or(1, NonZero::get);
    let cases: Vec<Case> = cases.into_iter().filter(wanted).step_by(every).collect();
    if cases.is_empty() {
        bail!("no case has this name");
    }
    Ok(cases)
}

fn toolchains(case: &Case, quick: bool) -> Vec<Toolchain> {
    let all = case.compilers.iter().flat_map(|compiler| {
        case.linkers
            .iter()
            .map(|linker| Toolchain { compiler: compiler.clone(), linker: linker.clone() })
    });
    if quick {
        // The first installed pair. If none is installed, the first pair, which is then skipped.
        return all
            .clone()
            .find(Toolchain::is_installed)
            .or(all.clone().next())
            .into_iter()
            .collect();
    }
    all.collect()
}

fn one(case: &Case, toolchain: &Toolchain, root: &Path, support: &Path) -> Outcome {
    if let Some(reason) = &case.skip {
        return Outcome::Skipped(reason.clone());
    }
    if let Some(machine) = case.machine.as_ref().filter(|machine| **machine != ARCH) {
        return Outcome::Skipped(format!("it is for {machine}"));
    }
    if !toolchain.is_installed() {
        return Outcome::Skipped("not installed".into());
    }
    if let Some(missing) = case.needs.iter().find(|feature| !has(feature)) {
        return Outcome::Skipped(format!("the processor has no {missing}"));
    }
    let result =
        build::build(case, toolchain, root).and_then(|folder| judge::judge(case, &folder, support));
    match result {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Whether the kernel lists the processor's instruction set.
fn has(feature: &str) -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| {
        text.lines()
            .find(|line| line.starts_with("flags"))
            .is_some_and(|line| line.split_whitespace().any(|word| word == feature))
    })
}

fn report(outcomes: &[(&Case, &Toolchain, Outcome)]) -> steps::Outcome {
    let mut areas: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut failures = Vec::new();
    for (case, toolchain, outcome) in outcomes {
        let tally = areas.entry(&case.area).or_default();
        tally.cases += usize::from(seen.insert(&case.name));
        match outcome {
            Outcome::Passed => tally.builds += 1,
            Outcome::Failed(reason) => {
                tally.builds += 1;
                tally.failed += 1;
                failures.push(format!("{} ({toolchain}): {reason}", case.name));
            }
            Outcome::Skipped(_) => tally.skipped += 1,
        }
    }
    println!("\n{:<24} {:>6} {:>7} {:>7} {:>8}", "area", "cases", "builds", "failed", "skipped");
    let mut all = Tally::default();
    for (area, tally) in &areas {
        println!(
            "{area:<24} {:>6} {:>7} {:>7} {:>8}",
            tally.cases, tally.builds, tally.failed, tally.skipped
        );
        all.cases += tally.cases;
        all.builds += tally.builds;
        all.failed += tally.failed;
        all.skipped += tally.skipped;
    }
    println!(
        "{:<24} {:>6} {:>7} {:>7} {:>8}",
        "all", all.cases, all.builds, all.failed, all.skipped
    );
    let count = Count { passed: all.builds - all.failed, failed: all.failed };
    steps::Outcome { count, failures }
}

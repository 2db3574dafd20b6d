//! `cargo xtask lab protocols`: others' test suites of HTTP, WebSockets, WSGI and ASGI against `hydrozoa run`, test by test beside other
//! servers.
//!
//! A test that passes on another server has to pass on `hydrozoa run`, or a line of tests/protocols/expected.txt says why it does not.

mod autobahn;
mod expected;
mod h2spec;
mod server;
mod sources;
mod suite;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::environment::Environment;
use crate::{section, workspace};
use expected::Expected;
use server::Contender;
use suite::{Found, SUITES, Suite};

/// Options of `cargo xtask lab protocols`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only these suites
    #[arg(long, value_name = "SUITE", num_args = 1.., value_parser = suite::named)]
    only: Vec<&'static Suite>,
    /// The program h2spec, if it is not on PATH
    #[arg(long, value_name = "FILE", default_value = "h2spec")]
    h2spec: PathBuf,
    /// The `hydrozoa` command to try; without it, it is built from this checkout
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
    /// Write the table to docs/web.md
    #[arg(long, conflicts_with = "only")]
    page: bool,
    /// Keep each suite's results in this folder, as JSON
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// The programs that suites need.
struct Programs {
    environment: Environment,
    hydrozoa: PathBuf,
    h2spec: PathBuf,
}

/// Runs the suites on all servers. Returns an error if the differences are not those of the list.
pub fn run(arguments: &Arguments) -> Result<()> {
    let list = workspace::root().join("tests/protocols/expected.txt");
    let text = std::fs::read_to_string(&list).context("reading the list")?;
    let expected = Expected::parse(&text).with_context(|| list.display().to_string())?;
    let hydrozoa = match &arguments.command {
        Some(command) => {
            command.canonicalize().with_context(|| format!("finding {}", command.display()))?
        }
        None => workspace::build("hydrozoa-cli", "hydrozoa")?,
    };
    let environment = Environment::with_protocols()?;
    let programs = Programs { environment, hydrozoa, h2spec: arguments.h2spec.clone() };
    let all = SUITES.iter().filter(|suite| {
        arguments.only.is_empty() || arguments.only.iter().any(|only| only.name == suite.name)
    });
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for suite in all {
        let found = compared(suite, &programs, &expected, &mut wrong)?;
        if let Some(folder) = &arguments.results {
            keep(folder, suite, &found)?;
        }
        rows.push(table::Row { suite, found });
    }
    println!("\n{}", table::of(&rows));
    if arguments.page {
        let page = workspace::root().join("docs/web.md");
        section::write(&page, "protocols", |_| table::of(&rows))?;
    }
    for line in &wrong {
        println!("{line}");
    }
    ensure!(wrong.is_empty(), "{} differences from {}", wrong.len(), list.display());
    Ok(())
}

/// The results of a suite on each of its servers. Tests that differ from the list run again, with all of their suite: time decides some.
fn compared(
    suite: &Suite,
    programs: &Programs,
    expected: &Expected,
    wrong: &mut Vec<String>,
) -> Result<Found> {
    let mut found = once(suite, programs)?;
    let mut differ = expected.differences(suite.name, &found);
    if !differ.is_empty() {
        println!("{}: {} differences from the list; it runs again", suite.name, differ.len());
        found.join(once(suite, programs)?);
        differ = expected.differences(suite.name, &found);
    }
    wrong.extend(differ);
    Ok(found)
}

fn once(suite: &Suite, programs: &Programs) -> Result<Found> {
    let mut found = Found::default();
    for &contender in suite.contenders {
        let tests = suite.run(contender, programs);
        let tests = tests.with_context(|| format!("{} on {}", suite.name, contender.name()))?;
        let passed = tests.values().filter(|result| suite::passes(result)).count();
        println!("{} on {}: {passed} of {} pass", suite.name, contender.name(), tests.len());
        found.add(contender, tests);
    }
    if found.of(Contender::Hydrozoa).is_empty() {
        bail!("{} has run no test", suite.name);
    }
    Ok(found)
}

fn keep(folder: &std::path::Path, suite: &Suite, found: &Found) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join(format!("{}.json", suite.name));
    let text = serde_json::to_string_pretty(found)?;
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

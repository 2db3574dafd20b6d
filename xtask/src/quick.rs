//! `cargo xtask test --quick`: the checks that need no torch. They take at most five minutes on two cores after the
//! build.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::environment::Environment;
use crate::libtest::counted;
use crate::linker::cases;
use crate::steps::{Outcome, Steps, check};
use crate::suite;
use crate::{python, tools, workspace};

/// Test programs of the runtime that need the virtual environment with torch, or cargo features. If another program
/// needs it, that program fails here and its error says so.
const NEED_TORCH: [&str; 17] = [
    "blas",
    "breakdown",
    "cycles_torch",
    "deploy",
    "devices",
    "discovery",
    "errors_torch",
    "from_pyo3",
    "features",
    "imports_torch",
    "injections",
    "limits_torch",
    "package_imports",
    "packages_torch",
    "settle_torch",
    "tch",
    "torch_threads",
];

/// Runs every step, even after a failure. Returns an error if anything failed.
pub fn run() -> Result<()> {
    let mut steps = Steps::default();
    add(&mut steps);
    if !steps.summary() {
        bail!("the tests failed");
    }
    println!("(quick: `cargo xtask test` runs all tests, also those with torch)");
    Ok(())
}

/// Runs the steps.
pub fn add(steps: &mut Steps) {
    lints(steps);
    steps.run("layer rules and style", || {
        cargo_test(&["--package", "hydrozoa-tests", "--lib", "--test", "tidy"])
    });
    steps.run("unit and integration tests of the crates around the runtime", || {
        // Triton's Python models need numpy.
        let names = [
            "hydrozoa",
            "hydrozoa-tests",
            "hydrozoa-benches",
            "hydrozoa-capi",
            "hydrozoa-models",
            "hydrozoa-server",
            "hydrozoa-triton",
        ];
        let excluded = names.iter().flat_map(|name| ["--exclude", name]);
        let arguments: Vec<&str> = ["--workspace", "--lib", "--bins", "--tests"]
            .into_iter()
            .chain(excluded)
            .chain(["--no-fail-fast"])
            .collect();
        // `hydrozoa run` serves frameworks, which are some ten megabytes.
        let web = Environment::with_web(python::find(None)?)?;
        counted(command(&arguments).env("HYDROZOA_TEST_WEB", web.root()))
    });
    steps.run("unit tests of the server", || {
        let packages = ["hydrozoa-models", "hydrozoa-server", "hydrozoa-triton"];
        let packages = packages.map(|name| ["--package", name]);
        cargo_test(&[packages.as_flattened(), &["--lib"]].concat())
    });
    steps.run("unit and integration tests of the runtime without torch", || {
        let programs = without_torch()?;
        let mut arguments = vec!["--package", "hydrozoa", "--features", "anyhow,async"];
        arguments.extend(["--no-fail-fast", "--lib"]);
        arguments.extend(programs.iter().flat_map(|program| ["--test", program]));
        cargo_test(&arguments)
    });
    steps.run(suite::C_INTERFACE, || {
        tools::install(&tools::C_INTERFACE)?;
        cargo_test(&["--package", "hydrozoa-capi", "--lib", "--test", "programs"])
    });
    steps.run("linker cases, each with one compiler and linker", || {
        cases::run(&cases::Selection { quick: true, ..cases::Selection::default() })
    });
}

/// The format of all code, and clippy's opinion of it.
pub fn lints(steps: &mut Steps) {
    steps.run("rustfmt", || check(workspace::cargo().args(["fmt", "--all", "--check"])));
    steps.run("clippy, all targets, warnings are errors", || {
        let flags = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        check(workspace::cargo().args(flags))
    });
}

/// The runtime's test programs that need only a Python.
fn without_torch() -> Result<Vec<String>> {
    let folder = workspace::root().join("runtime/tests");
    let mut programs = Vec::new();
    for entry in folder.read_dir().context("reading runtime/tests")? {
        let path = entry?.path();
        // Where cargo looks for test programs: a file, or a folder with a main.rs.
        let is_file = path.extension().is_some_and(|extension| extension == "rs");
        if is_file || path.join("main.rs").exists() {
            programs.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    for name in NEED_TORCH {
        ensure!(programs.iter().any(|program| program == name), "there is no test program {name}");
    }
    programs.retain(|program| !NEED_TORCH.contains(&program.as_str()));
    programs.sort();
    Ok(programs)
}

fn cargo_test(arguments: &[&str]) -> Result<Outcome> {
    counted(&mut command(arguments))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = workspace::cargo();
    command.arg("test").args(arguments).env("OMP_NUM_THREADS", "1");
    command
}

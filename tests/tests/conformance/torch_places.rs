//! Each interpreter has its own torch, wherever Python finds the package and its libraries.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa_tests::place;

const COPIES: usize = 3;

/// An environment without packages of its own, of the tests' Python.
fn empty_venv(folder: &Path, venv: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::copy(venv.join("pyvenv.cfg"), folder.join("pyvenv.cfg"))?;
    fs::create_dir_all(site_packages(folder, venv)?)?;
    fs::create_dir_all(folder.join("bin"))?;
    let python = venv.join("bin/python").canonicalize()?;
    Ok(symlink(python, folder.join("bin/python"))?)
}

/// The folder of packages of the environment `folder`, which has the Python of `venv`.
fn site_packages(folder: &Path, venv: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(venv.join("lib"))?.filter_map(Result::ok);
    let name = entries
        .map(|entry| entry.file_name())
        .find(|name| name.to_string_lossy().starts_with("python3."))
        .context("a virtual environment has lib/python3.N")?;
    Ok(folder.join("lib").join(name).join("site-packages"))
}

/// The entries of a folder, each with its name.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, OsString)>> {
    let all = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    all.map(|entry| Ok(entry.map(|entry| (entry.path(), entry.file_name()))?)).collect()
}

/// Packages like those of a distribution: torch's libraries are not in the package but in the folder `libraries`.
fn as_distributed(packages: &Path, libraries: &Path, site: &Path) -> Result<()> {
    fs::create_dir_all(libraries)?;
    fs::create_dir_all(packages.join("torch/lib"))?;
    for (path, name) in entries(site)?.into_iter().filter(|(_, name)| name != "torch") {
        symlink(path, packages.join(name))?;
    }
    for (path, name) in entries(&site.join("torch"))?.into_iter().filter(|(_, name)| name != "lib")
    {
        // The extension module finds its libraries beside itself: $ORIGIN is the folder of the file.
        let to = packages.join("torch").join(&name);
        if path.extension().is_some_and(|extension| extension == "so") {
            fs::copy(path, to)?;
        } else {
            symlink(path, to)?;
        }
    }
    for (path, name) in entries(&site.join("torch/lib"))? {
        // torch/__init__.py opens this one by its path in the package.
        let own = name.to_string_lossy().contains("global_deps");
        let to = if own { packages.join("torch/lib") } else { libraries.to_owned() }.join(name);
        // A file system of its own takes no hard links.
        if path.is_dir() || fs::hard_link(&path, &to).is_err() {
            symlink(path, to)?;
        }
    }
    Ok(())
}

/// `hydrozoa python` in three copies at once.
fn copies(venv: &Path, script: &Path) -> Result<Command> {
    let mut command = Command::new(place::command()?);
    for variable in ["VIRTUAL_ENV", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE"] {
        command.env_remove(variable);
    }
    command.arg("python").arg("--venv").arg(venv);
    command.args(["--copies", &COPIES.to_string(), "--in", "all", "--"]).arg(script);
    Ok(command)
}

pub fn anywhere() -> Result<()> {
    let venv = place::venv()?;
    let site = site_packages(&venv, &venv)?;
    // Beside the environment: hard links need one file system.
    let folder = tempfile::Builder::new()
        .prefix("torch-places-")
        .tempdir_in(venv.parent().context("an environment has a parent")?)?;
    let path = |name: &str| folder.path().join(name);
    let (empty, pointing) = (path("empty"), path("pointing"));
    empty_venv(&empty, &venv)?;
    empty_venv(&pointing, &venv)?;
    let file = site_packages(&pointing, &venv)?.join("more.pth");
    fs::write(file, format!("{}\n", site.display()))?;
    let (packages, libraries) = (path("packages"), path("libraries"));
    as_distributed(&packages, &libraries, &site)?;

    let distributed = vec![("PYTHONPATH", packages), ("LD_LIBRARY_PATH", libraries)];
    let script = place::script("torch_places.py");
    for (what, environment, variables) in [
        ("a path configuration file", pointing, vec![]),
        ("libraries of the system", empty, distributed),
    ] {
        let output = copies(&environment, &script)?.envs(variables).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let done = (1..=COPIES).all(|copy| text.contains(&format!("copy {copy} uses ")));
        ensure!(output.status.success() && done, "{what}: {}\n{text}{errors}", output.status);
    }
    Ok(())
}

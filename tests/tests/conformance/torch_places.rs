//! The policy for torch holds for the files that are loaded, wherever Python finds them.

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
fn copies(venv: &Path, policy: &str, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(place::command()?);
    for variable in ["VIRTUAL_ENV", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE"] {
        command.env_remove(variable);
    }
    command.arg("python").arg("--venv").arg(venv).args(["--torch", policy]);
    command.args(["--copies", &COPIES.to_string(), "--in", "all", "--"]).args(arguments);
    Ok(command)
}

/// What a place is, the environment, the variables, and whether Python finds torch there when it starts. `auto`
/// makes no difference between a torch that is found at the start and one that is found later.
type Case<'a> = (&'a str, &'a Path, Vec<(&'a str, &'a Path)>, bool);

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
    // The user's own packages: an environment that has those of the system has these, too.
    let (user, personal) = (path("user"), path("personal"));
    empty_venv(&personal, &venv)?;
    let configuration = fs::read_to_string(personal.join("pyvenv.cfg"))?;
    let [without, with] =
        ["false", "true"].map(|value| format!("include-system-site-packages = {value}"));
    ensure!(configuration.contains(&without), "{configuration}");
    fs::write(personal.join("pyvenv.cfg"), configuration.replace(&without, &with))?;
    let in_user =
        user.join("lib").join(site.parent().and_then(Path::file_name).unwrap_or_default());
    fs::create_dir_all(&in_user)?;
    symlink(&site, in_user.join("site-packages"))?;
    let (packages, libraries) = (path("packages"), path("libraries"));
    as_distributed(&packages, &libraries, &site)?;

    let distributed = vec![("PYTHONPATH", &*packages), ("LD_LIBRARY_PATH", &*libraries)];
    let later = vec![("FIRST_ON_PATH", &*packages), ("LD_LIBRARY_PATH", &*libraries)];
    let cases: [Case<'_>; 6] = [
        ("a path configuration file", &pointing, vec![], true),
        ("PYTHONPATH", &empty, vec![("PYTHONPATH", &*site)], true),
        ("the user's own packages", &personal, vec![("PYTHONUSERBASE", &*user)], true),
        ("sys.path", &empty, vec![("FIRST_ON_PATH", &*site)], false),
        ("libraries of the system", &empty, distributed, true),
        ("libraries of the system, later", &empty, later, false),
    ];
    let script = place::script("torch_places.py");
    let script = script.to_str().context("a UTF-8 path")?;
    for policy in ["auto", "shared"] {
        for (what, environment, variables, at_start) in &cases {
            let mut command = copies(environment, policy, &[script])?;
            command.envs(variables.iter().copied());
            let output = command.output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let done = (1..=COPIES).all(|copy| text.contains(&format!("copy {copy} uses ")));
            if policy == "shared" && *what == "libraries of the system" {
                // The adapter serves wheels only, and says so before anything is loaded.
                let told = errors.contains("libtorch_cpu.so") && errors.contains("policy `shared`");
                ensure!(told && !output.status.success(), "{what}: {errors}");
                continue;
            }
            ensure!(
                output.status.success() && done,
                "{what}, {policy}: {}\n{text}{errors}",
                output.status
            );
            // Said once, with the file, where `shared` cannot be had.
            let warnings =
                errors.matches("libtorch_cpu.so: each interpreter loads its own copy").count();
            ensure!(
                warnings == usize::from(policy == "shared" && !at_start),
                "{what}, {policy}: {errors}"
            );
        }
    }
    Ok(())
}

/// Loads the file that the first argument names. Then torch.
const FOREIGN: &str = "
import ctypes, sys, torch
try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    assert 'belongs to another torch' in str(error) and sys.argv[1] in str(error), error
    assert torch.ones(3).sum() == 3
    print('refused', flush=True)
";

pub fn refused() -> Result<()> {
    let venv = place::venv()?;
    let folder = place::scratch("other-torch")?;
    let library = folder.path().join("libtorch_cpu.so");
    let source = folder.path().join("other.c");
    fs::write(&source, "__attribute__((constructor)) static void run(void) { __builtin_trap(); }")?;
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    ensure!(built.status().context("starting cc")?.success(), "cc failed");
    let library = library.to_str().context("a UTF-8 path")?;
    let output = copies(&venv, "shared", &["-c", FOREIGN, library])?.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(text.matches("refused").count() == COPIES, "{}\n{text}{errors}", output.status);
    Ok(())
}

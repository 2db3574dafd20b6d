//! An application with each CPython and numpy, sealed, in a root that has nothing but glibc.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa_tests::commands::{clean, run};
use hydrozoa_tests::place;

/// A model in numpy, and what it needs of the standard library.
const MODEL: &str = "
import ctypes, hashlib, json, os, sqlite3, ssl, sys
import numpy as np
from numpy.linalg import svd

random = np.random.default_rng(7)
layers = [random.standard_normal((64, 64)).astype(np.float32) for _ in range(4)]
value = random.standard_normal((8, 64)).astype(np.float32)
for layer in layers:
    value = np.maximum(value @ layer, 0) / 8
digest = hashlib.sha256(value.tobytes() + svd(layers[0])[1].tobytes()).hexdigest()
print(json.dumps([sys.version_info[:3], np.__version__, digest, bool(sqlite3.sqlite_version and ssl.OPENSSL_VERSION)]))
";

/// Interpreters of an application.
const COPIES: usize = 4;

/// Plain python's values come out of each interpreter where no other file exists, and out of one alone.
pub fn in_an_empty_root() -> Result<()> {
    let venvs = place::pythons()?;
    ensure!(!venvs.is_empty(), "HYDROZOA_TEST_PYTHONS names no environment");
    for venv in venvs {
        one(&venv).with_context(|| format!("an application of {}", venv.display()))?;
    }
    Ok(())
}

fn one(venv: &Path) -> Result<()> {
    let scratch = place::scratch("sealed")?;
    let script = scratch.path().join("model.py");
    fs::write(&script, MODEL)?;
    let mut python = clean(Command::new(venv.join("bin/python")));
    let expected = run(python.arg("-I").arg(&script).env("OMP_NUM_THREADS", "1"))?;
    let root = scratch.path().join("root");
    fill(&root)?;
    for copies in [1, COPIES] {
        let mut seal = clean(Command::new(place::command()?));
        seal.args(["seal", "--no-symbols", "--copies", &copies.to_string(), "--venv"]).arg(venv);
        run(seal.arg("--script").arg(&script).arg("-o").arg(root.join("app")))?;
        let found = run(&mut inside(&root, "/app"))?;
        let lines: Vec<&str> = found.lines().collect();
        ensure!(
            lines.len() == copies && lines.iter().all(|line| *line == expected.trim_end()),
            "{copies} interpreters:\n{found}plain python:\n{expected}"
        );
    }
    Ok(())
}

/// A program of Rust carries its Python: its pool finds it without being told of one.
pub fn a_program_of_rust() -> Result<()> {
    let venvs = place::pythons()?;
    let venv = venvs.first().context("HYDROZOA_TEST_PYTHONS names no environment")?;
    let scratch = place::scratch("embedded")?;
    let file = scratch.path().join("program");
    let mut seal = clean(Command::new(place::command()?));
    seal.args(["seal", "--base", env!("CARGO_BIN_EXE_embedded"), "--venv"]).arg(venv);
    run(seal.arg("-o").arg(&file))?;
    let found = run(Command::new(&file).env_clear())?;
    let lines: Vec<&str> = found.lines().collect();
    let is_inside = |line: &&str| line.starts_with("45 /<sealed>/lib/python3.");
    ensure!(lines.len() == 2 && lines.iter().all(is_inside), "{found}");
    Ok(())
}

/// The libraries of glibc and of the compiler.
const LIBRARIES: [&str; 10] = [
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
    "libmvec.so.1",
];

/// Makes a root with these libraries and a place for /proc.
fn fill(root: &Path) -> Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mapped = |name: &str| -> Result<PathBuf> {
        let mut paths = maps.lines().filter_map(|line| Some(Path::new(line.get(73..)?.trim())));
        let found = paths.find(|path| path.file_name().is_some_and(|file| file == name));
        Ok(found.with_context(|| format!("no {name} is loaded"))?.to_owned())
    };
    let folder = mapped("libc.so.6")?;
    let folder = folder.parent().context("a library lies in a folder")?;
    let target = root.join(folder.strip_prefix("/")?);
    fs::create_dir_all(&target)?;
    for name in LIBRARIES {
        // libmvec exists on some machines only.
        if folder.join(name).exists() {
            fs::copy(folder.join(name), target.join(name))?;
        }
    }
    let linker = match env::consts::ARCH {
        "x86_64" => "lib64/ld-linux-x86-64.so.2",
        _ => "lib/ld-linux-aarch64.so.1",
    };
    let place = root.join(linker);
    fs::create_dir_all(place.parent().context("it lies in a folder")?)?;
    fs::copy(Path::new("/").join(linker), place)?;
    fs::create_dir_all(root.join("proc"))?;
    Ok(())
}

/// A program of a root, with /proc of its own.
fn inside(root: &Path, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "--pid", "--fork"]);
    command.arg(format!("--mount-proc={}", root.join("proc").display()));
    command.arg("env").arg("-i").arg("OMP_NUM_THREADS=1");
    let folder = Path::new("/usr/sbin/chroot");
    command.arg(if folder.exists() { folder } else { Path::new("chroot") });
    command.arg(root).arg(program);
    command
}

//! The empty root: a Debian with a C++ compiler and a CPython, and nothing of this machine but its Rust.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::{self, CacheFolder};
use crate::debian::{self, copy, remove};
use crate::tools::succeeds;
use crate::workspace;

/// Debian's release, whose CPython is [`PACKAGES`]'s.
const RELEASE: &str = "bookworm";

/// The README's requirements, beside Rust.
const PACKAGES: &str = "ca-certificates,g++,libpython3.11,python3,python3-venv";

/// The newcomer's home, which has the checkout.
const HOME: &str = "/root";

/// A root that one user has.
pub struct Root {
    root: debian::Root,
    /// Its lock keeps other runs from the folders.
    entry: CacheFolder,
}

impl Root {
    /// Makes it; or, if `again`, takes the one that an earlier run has left. An earlier run's builds stay, unless `fresh`.
    pub fn prepare(fresh: bool, again: bool) -> Result<Self> {
        debian::is_possible()?;
        let entry = CacheFolder::open(&format!("newcomer-{RELEASE}"))?;
        entry.complete(|folder| debian::make(folder, RELEASE, PACKAGES))?;
        let cache = cache::root()?;
        let (folder, target) = (cache.join("newcomer-root"), cache.join("newcomer-target"));
        if fresh {
            remove(&target)?;
        }
        let home = |name: &str, other: &str| {
            let own = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            env::var_os(name).map_or_else(|| own.join(other), PathBuf::from)
        };
        let cargo = home("CARGO_HOME", ".cargo");
        let mounted = vec![
            (toolchain()?, "/opt/rust".to_owned()),
            (target, format!("{HOME}/hydrozoa/target")),
            (cargo.join("registry"), format!("{HOME}/.cargo/registry")),
            (home("XDG_CACHE_HOME", ".cache").join("pip"), format!("{HOME}/.cache/pip")),
            (PathBuf::from("/etc/ssl"), "/etc/ssl".to_owned()),
        ];
        let root = Self { root: debian::Root::new(folder, mounted), entry };
        if !again {
            root.fill(&cargo)?;
        }
        let folder = root.root.folder();
        ensure!(folder.exists(), "no earlier run has left {}", folder.display());
        Ok(root)
    }

    /// The checkout, and the files of this machine, in a copy of Debian.
    fn fill(&self, cargo: &Path) -> Result<()> {
        self.root.fill(self.entry.folder())?;
        let own = cargo.join("config.toml");
        if own.is_file() {
            copy(&own, &self.root.inside(&format!("{HOME}/.cargo/config.toml")))?;
        }
        checkout(&self.checkout())
    }

    fn checkout(&self) -> PathBuf {
        self.root.inside(HOME).join("hydrozoa")
    }

    /// Writes a file in the checkout.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.checkout().join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Runs a line of a shell in the checkout.
    pub fn run(&self, line: &str) -> Result<()> {
        // As after `. venv/bin/activate`.
        let path = format!(
            "{HOME}/hydrozoa/venv/bin:/opt/rust/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        );
        self.root.run(&path, &format!("cd ~/hydrozoa && {line}"))
    }

    /// Removes it.
    pub fn remove(self) -> Result<()> {
        self.root.remove()
    }
}

/// The toolchain that runs this program.
fn toolchain() -> Result<PathBuf> {
    let output =
        Command::new("rustc").args(["--print", "sysroot"]).output().context("starting rustc")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Puts the tracked files, with their uncommitted changes, into a folder.
fn checkout(folder: &Path) -> Result<()> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(workspace::root()).output();
        let output = output.context("starting git")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    // A commit of the changes, on no branch; empty without changes.
    let changes = git(&["stash", "create"])?;
    let commit = if changes.is_empty() { "HEAD" } else { &changes };
    let archive = folder.with_extension("tar");
    let output = format!("--output={}", archive.display());
    git(&["archive", &output, commit])?;
    succeeds(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder))?;
    fs::remove_file(&archive).with_context(|| format!("removing {}", archive.display()))
}

//! The virtual environment of demo and tests. Its wheels are pinned and cached outside the checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::cache::CacheFolder;
use crate::python::{Python, Wanted};
use crate::{lock, python, uv, venv};

/// Options of every task that needs Python.
// Not an argument group of clap's: the group would take the name of the arguments that contain this one.
#[derive(clap::Args, Clone, Default)]
#[group(skip)]
pub struct Arguments {
    /// The CPython to use: a version from 3.10 to 3.15, or the path of an executable, of a prefix or of a virtual
    /// environment; without it the first version that has a shared library, 3.11 preferred
    #[arg(long, value_name = "3.N|PATH")]
    pub python: Option<Wanted>,
}

/// A complete virtual environment.
#[derive(Clone)]
pub struct Environment {
    root: PathBuf,
    python: Python,
}

impl Environment {
    /// Finds a Python and installs the locked packages, unless an earlier run did.
    pub fn prepare(arguments: &Arguments) -> Result<Self> {
        Self::with_torch(python::find(arguments.python.as_ref())?)
    }

    /// Installs the locked packages for a Python, unless an earlier run did.
    pub fn with_torch(python: Python) -> Result<Self> {
        let lock = lock::of(python.minor);
        ensure!(
            lock.has_torch(),
            "torch 2.11.0 has no wheel for CPython 3.{}. `cargo xtask test --python 3.{0}` runs what needs no torch",
            python.minor
        );
        Self::installed("venv", python, lock.text)
    }

    /// As [`Self::with_torch`], for the Python whose turn it is. Two gigabytes for each version would add up: the environment of
    /// an earlier turn is removed.
    pub fn further(&self, python: Python) -> Result<Self> {
        let lock = lock::of(python.minor).text;
        let executable = python.executable.to_string_lossy().into_owned();
        let current = |kind| name(kind, &python, &[lock, &executable]);
        if CacheFolder::open(&current("venv"))?.is_complete() {
            return Self::with_torch(python);
        }
        CacheFolder::remove_others("further", &current("further"))?;
        Self::installed("further", python, lock)
    }

    /// An environment with the locked numpy alone, of a few ten megabytes.
    pub fn with_numpy(python: Python) -> Result<Self> {
        let numpy = lock::of(python.minor).numpy();
        Self::installed("numpy", python, numpy)
    }

    fn installed(kind: &str, python: Python, lock: &str) -> Result<Self> {
        // A venv refers to its base Python by path, so another base needs another environment.
        let entry =
            CacheFolder::open(&name(kind, &python, &[lock, &python.executable.to_string_lossy()]))?;
        entry.complete(|folder| install(&python, lock, folder))?;
        Ok(Self { root: entry.folder().to_owned(), python })
    }

    /// An environment with the packages of the models as well; the models are exported there. Hydrozoa's interpreters
    /// never use it.
    pub fn with_models(&self) -> Result<Self> {
        self.with("models", lock::of(self.python.minor).models)
    }

    /// An environment with the packages of `cargo xtask lab workloads` as well.
    pub fn with_workloads(&self) -> Result<Self> {
        self.with("workloads", lock::of(self.python.minor).workloads)
    }

    /// An environment with frameworks for the web, and without torch.
    pub fn with_web(python: Python) -> Result<Self> {
        let lock = lock::of(python.minor).web;
        Self::installed("web", python, lock.context("the frameworks are locked where torch is")?)
    }

    /// An environment with the servers that `cargo xtask lab protocols` compares, and without torch.
    pub fn with_protocols() -> Result<Self> {
        let python = python::find(Some(&Wanted::Minor(lock::SERVING)))?;
        Self::installed("protocols", python, lock::OF_PROTOCOLS)
    }

    /// An environment with the clients of the server as well. Hydrozoa's interpreters never use it.
    pub fn with_clients(&self) -> Result<Self> {
        self.with("clients", lock::of(self.python.minor).clients)
    }

    /// An environment with one of the serving systems of `cargo xtask lab serve`, or with all of `cargo xtask lab web`.
    pub fn with_server(&self, name: &str) -> Result<Self> {
        let minor = self.python.minor;
        ensure!(
            minor == lock::SERVING,
            "servers are compared with CPython 3.{}, for which their packages are pinned, and not with 3.{minor}",
            lock::SERVING
        );
        self.with(name, lock::server(name))
    }

    /// An environment that contains the locked packages alone, and also sees the packages of this environment.
    fn with(&self, kind: &str, lock: Option<&str>) -> Result<Self> {
        let lock = lock.context("the environment has torch")?;
        let entry =
            CacheFolder::open(&name(kind, &self.python, &[lock, &self.root.to_string_lossy()]))?;
        entry.complete(|folder| {
            install(&self.python, lock, folder)?;
            let base = packages(&self.root, self.python.minor);
            // Python also searches each folder that a line of a .pth file names (site's documentation).
            let path = packages(folder, self.python.minor).join("hydrozoa-base.pth");
            std::fs::write(&path, format!("{}\n", base.display()))
                .with_context(|| format!("writing {}", path.display()))
        })?;
        Ok(Self { root: entry.folder().to_owned(), python: self.python.clone() })
    }

    /// The environment's folder, for `--venv`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The Python that the environment was made with.
    pub fn base(&self) -> &Python {
        &self.python
    }

    /// The environment's own Python, without the environment variables that would change its behaviour.
    pub fn python(&self) -> Command {
        venv::python(&self.root)
    }

    /// The folder with torch's libraries.
    pub fn libtorch(&self) -> Result<PathBuf> {
        let program = "import os, torch; print(os.path.dirname(torch.__file__))";
        let output = self.python().args(["-c", program]).output().context("starting python")?;
        ensure!(output.status.success(), "torch cannot be imported");
        Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib"))
    }

    /// torch-sys asks the `python3` on PATH for torch. The built programs find its libraries through LD_LIBRARY_PATH.
    pub fn with_libtorch<'c>(&self, command: &'c mut Command) -> Result<&'c mut Command> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.root.join("bin")).chain(std::env::split_paths(&path));
        Ok(command
            .env("PATH", std::env::join_paths(folders)?)
            .env("LIBTORCH_USE_PYTORCH", "1")
            .env("LD_LIBRARY_PATH", self.libtorch()?))
    }
}

/// Where an environment's packages lie (`sysconfig`'s scheme for virtual environments).
fn packages(root: &Path, minor: u8) -> PathBuf {
    root.join(format!("lib/python3.{minor}/site-packages"))
}

/// The name of a cache entry. It contains everything that determines the entry's content.
fn name(kind: &str, python: &Python, contents: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for content in contents {
        hasher.update(content);
    }
    let key: String = hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}-cp3{}-{key}", python.minor)
}

fn install(python: &Python, lock: &str, folder: &Path) -> Result<()> {
    eprintln!("installing {} packages for CPython 3.{}", lock::packages(lock), python.minor);
    venv::create(python, folder)?;
    let requirements = folder.join("requirements.txt");
    std::fs::write(&requirements, lock)
        .with_context(|| format!("writing {}", requirements.display()))?;
    let mut uv = uv::install(python, &folder.join("bin/python"))?;
    // Programs that measure imports do not compile modules.
    uv.args(["--require-hashes", "--no-deps", "--compile-bytecode", "--requirement"]);
    let status = uv.arg(requirements).status().context("starting uv")?;
    ensure!(status.success(), "uv cannot install the locked packages ({status}); see above");
    Ok(())
}

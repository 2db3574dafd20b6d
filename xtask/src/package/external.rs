//! A crate outside of the checkout that has the packages as its dependencies, made of their files alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// What the README's first sample must print.
const PRINTED: &str = "4 interpreters: 17984 primes";

/// The crate, in a folder beside the packages.
pub struct External {
    folder: PathBuf,
    target: PathBuf,
    home: PathBuf,
    jobs: Option<usize>,
}

impl External {
    /// Makes it in the folder `target`, where cargo has compiled the packages, of the README's first sample. `packages`
    /// are their names and folders; `home` is cargo's, and `jobs` the number of its compilers.
    pub fn create(
        target: &Path,
        packages: &[(String, PathBuf)],
        home: &Path,
        jobs: Option<usize>,
    ) -> Result<Self> {
        let folder = target.join("external");
        let readme = std::fs::read_to_string(workspace::root().join("README.md"))?;
        let sample = readme.split("```").nth(1).and_then(|sample| sample.strip_prefix("rust\n"));
        let sample = sample.context("README.md begins with a sample")?;
        // cargo takes the packages for those of the registry.
        let patches: String = packages
            .iter()
            .map(|(name, package)| format!("{name} = {{ path = {package:?} }}\n"))
            .collect();
        let manifest = format!(
            "[package]\nname = \"external\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
             [dependencies]\nhydrozoa = \"*\"\n\n\
             [workspace]\n\n[patch.crates-io]\n{patches}"
        );
        std::fs::create_dir_all(folder.join("src"))?;
        std::fs::write(folder.join("Cargo.toml"), manifest)?;
        std::fs::write(folder.join("src/main.rs"), sample)?;
        std::fs::copy(workspace::root().join("Cargo.lock"), folder.join("Cargo.lock"))
            .context("copying the versions of all dependencies")?;
        Ok(Self { folder, target: target.to_owned(), home: home.to_owned(), jobs })
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = workspace::cargo();
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_HOME", &self.home)
            .env("CARGO_TARGET_DIR", &self.target)
            .envs(super::WITHOUT_DEBUG)
            .envs(super::limit(self.jobs));
        command
    }

    /// Builds the sample and runs it.
    pub fn run(&self) -> Result<()> {
        let output = self.cargo(&["run", "--quiet"]).output().context("starting cargo")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success() && printed.contains(PRINTED),
            "the README's sample with the packages printed {printed:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Builds the documentation as docs.rs does, which has no network.
    pub fn document(&self) -> Result<()> {
        let mut cargo =
            self.cargo(&["doc", "--quiet", "--offline", "--no-deps", "--package", "hydrozoa"]);
        let status = cargo.env("DOCS_RS", "1").status().context("starting cargo")?;
        ensure!(status.success(), "the documentation of the packages does not build");
        Ok(())
    }

    /// Has the compiler refuse a program with a static glibc, with a reason.
    pub fn refuse_static(&self) -> Result<()> {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let output = self
            .cargo(&["check", "--quiet", "--package", "hydrozoa-loader", "--target", &triple])
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .output()
            .context("starting cargo")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success()
                && errors.contains("build without the target feature crt-static"),
            "a program with a static glibc gets no reason: {errors}"
        );
        Ok(())
    }
}

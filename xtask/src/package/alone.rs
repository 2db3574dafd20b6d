//! A workspace of the packages' files alone, with a crate that has them as its dependencies.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The expected output of the README's first sample.
const PRINTED: &str = "4 interpreters: 17984 primes";

/// The crate with the sample.
const SAMPLE: &str = "[package]\nname = \"external\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
    [dependencies]\nhydrozoa = \"*\"\n";

/// The workspace. It is built where the checkout is, so that what both depend on is compiled once.
pub struct Alone {
    folder: PathBuf,
    target: PathBuf,
}

impl Alone {
    /// Makes it in `folder`, which has the packages: their names, and their folders.
    pub fn create(folder: PathBuf, packages: &[(String, String)]) -> Result<Self> {
        let readme = std::fs::read_to_string(workspace::root().join("README.md"))?;
        let sample = readme.split("```").nth(1).and_then(|sample| sample.strip_prefix("rust\n"));
        let sample = sample.context("README.md begins with a sample")?;
        std::fs::create_dir_all(folder.join("external/src"))?;
        std::fs::write(folder.join("external/Cargo.toml"), SAMPLE)?;
        std::fs::write(folder.join("external/src/main.rs"), sample)?;

        let members: Vec<&str> = packages.iter().map(|(_, folder)| &**folder).collect();
        let mut manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = {:?}\n\n[patch.crates-io]\n",
            [&["external"], &members[..]].concat()
        );
        // cargo takes the packages for those of the registry.
        for (name, package) in packages {
            writeln!(manifest, "{name} = {{ path = {package:?} }}")?;
        }
        // The checkout's profile for others' crates. Nobody debugs these builds.
        manifest.push_str("\n[profile.dev]\ndebug = false\n");
        std::fs::write(folder.join("Cargo.toml"), manifest)?;
        std::fs::copy(workspace::root().join("Cargo.lock"), folder.join("Cargo.lock"))
            .context("copying the versions of all dependencies")?;
        Ok(Self { folder, target: workspace::target()? })
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = workspace::cargo();
        command.args(arguments).current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Builds all packages, and the crate.
    pub fn build(&self) -> Result<()> {
        let status = self.cargo(&["build", "--quiet", "--workspace"]).status();
        ensure!(
            status.context("starting cargo")?.success(),
            "the packages do not compile from their archives"
        );
        Ok(())
    }

    /// Has the packages' command run a Python.
    pub fn command(&self) -> Result<()> {
        let mut cargo = self.cargo(&["run", "--quiet", "--package", "hydrozoa-cli", "--"]);
        prints(cargo.args(["python", "-c", "print(6 * 7)"]), "42")
    }

    /// Runs the sample.
    pub fn sample(&self) -> Result<()> {
        prints(&mut self.cargo(&["run", "--quiet", "--package", "external"]), PRINTED)
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

/// Runs a program of the packages, which must print a line with `expected`.
fn prints(command: &mut Command, expected: &str) -> Result<()> {
    let output = command.output().context("starting cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && printed.contains(expected),
        "{command:?} printed {printed:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

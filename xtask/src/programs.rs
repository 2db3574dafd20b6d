//! The test programs and the libraries of the workspace, built by one command.
//!
//! cargo chooses the features of dependencies by the packages that a command names. A command for a part of the workspace would
//! build the runtime, and its dependents, once more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::libtest::counted_as;
use crate::steps::Outcome;
use crate::workspace;

/// A program of tests, as cargo has built it.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The folder of its package in the checkout.
    pub package: PathBuf,
    /// Cargo's name for the target: a library, a binary or a file of tests.
    pub name: String,
    /// `lib`, `bin` or `test`, or another word of cargo's for a library.
    pub kind: String,
    executable: PathBuf,
}

impl Program {
    /// Whether it is this file, or folder, in the folder `tests` of this package.
    pub fn is(&self, package: &str, name: &str) -> bool {
        self.kind == "test" && self.package == Path::new(package) && self.name == name
    }
}

/// The programs that the build has made.
#[derive(Clone, Debug)]
pub struct Programs {
    all: Vec<Program>,
    /// The command `hydrozoa`.
    pub command: PathBuf,
    /// The comparison of `benches`, and its client of servers.
    pub compare: PathBuf,
    /// The laboratories.
    pub lab: PathBuf,
    /// Where cargo puts its builds.
    pub folder: PathBuf,
}

impl Programs {
    /// Builds all requirements of all packages' tests.
    pub fn build() -> Result<Self> {
        let output = workspace::cargo()
            .args(["build", "--workspace", "--lib", "--examples", "--tests", "--bin", "lab"])
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .context("starting cargo")?;
        if !output.status.success() {
            bail!("cargo cannot build the tests: {}", output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Self::found(workspace::root(), &messages)
    }

    /// The programs named by cargo's messages.
    fn found(root: &Path, messages: &[Value]) -> Result<Self> {
        let mut all = Vec::new();
        let mut binaries = BTreeMap::new();
        for message in messages.iter().filter(|message| message["executable"].is_string()) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let executable = PathBuf::from(text(&message["executable"]));
            let (name, kind) =
                (text(&message["target"]["name"]), text(&message["target"]["kind"][0]));
            if message["profile"]["test"] == true {
                let manifest = PathBuf::from(text(&message["manifest_path"]));
                let package = manifest.parent().and_then(|folder| folder.strip_prefix(root).ok());
                let package = package.context("a package lies in the checkout")?.to_owned();
                all.push(Program { package, name, kind, executable });
            } else if kind == "bin" {
                binaries.insert(name, executable);
            }
        }
        all.sort_by(|one, other| {
            (&one.package, &one.kind, &one.name).cmp(&(&other.package, &other.kind, &other.name))
        });
        let mut binary = |name: &str| {
            binaries.remove(name).with_context(|| format!("cargo named no program {name}"))
        };
        let (command, compare) = (binary("hydrozoa")?, binary("compare")?);
        // Laboratories find it beside the others.
        binary("load")?;
        let lab = binary("lab")?;
        let folder = command.parent().context("a file lies in a folder")?.to_owned();
        Ok(Self { all, command, compare, lab, folder })
    }

    /// The programs for which `wanted` says yes, in the order of their packages.
    pub fn select(&self, wanted: impl Fn(&Program) -> bool) -> Selection {
        Selection(self.all.iter().filter(|program| wanted(program)).cloned().collect())
    }

    /// The programs with these names, each of which must exist.
    pub fn named(&self, names: &[(&str, &str)]) -> Result<Selection> {
        let selection =
            self.select(|program| names.iter().any(|(package, name)| program.is(package, name)));
        let is_there = |(package, name): &&(&str, &str)| {
            selection.0.iter().any(|program| program.is(package, name))
        };
        if let Some((package, name)) = names.iter().find(|name| !is_there(name)) {
            bail!("the package in {package} has no program of tests {name}");
        }
        Ok(selection)
    }
}

/// Programs that run one after the other.
pub struct Selection(Vec<Program>);

impl Selection {
    /// Runs each in its package's folder, as `cargo test` does, with libtest's arguments. `prepare` sets the environment.
    pub fn run(
        &self,
        arguments: &[&str],
        prepare: impl Fn(&mut Command) -> Result<()>,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for program in &self.0 {
            let folder = workspace::root().join(&program.package);
            let mut command = Command::new(&program.executable);
            command.args(arguments).current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
            prepare(&mut command)?;
            let title = format!("{}: {} {}", program.package.display(), program.kind, program.name);
            outcome.add(counted_as(&title, &mut command)?);
        }
        ensure!(outcome.count.passed + outcome.count.failed > 0, "no test ran");
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(package: &str, (kind, name): (&str, &str), is_test: bool) -> Value {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": format!("/checkout/{package}/Cargo.toml"),
            "target": { "kind": [kind], "name": name },
            "profile": { "test": is_test },
            "executable": format!("/target/debug/{name}"),
        })
    }

    #[test]
    fn programs_and_the_command_are_told_apart() {
        let messages = [
            message("server", ("test", "limits"), true),
            message("cli", ("bin", "hydrozoa"), true),
            message("cli", ("bin", "hydrozoa"), false),
            message("benches", ("bin", "compare"), false),
            message("benches", ("bin", "load"), false),
            message("xtask/lab", ("bin", "lab"), false),
            message("loader", ("example", "counters"), false),
            serde_json::json!({ "reason": "compiler-artifact", "executable": null }),
        ];
        let found = Programs::found(Path::new("/checkout"), &messages).unwrap();
        assert_eq!(found.command, Path::new("/target/debug/hydrozoa"));
        assert_eq!(found.compare, Path::new("/target/debug/compare"));
        assert_eq!(found.lab, Path::new("/target/debug/lab"));
        assert_eq!(found.folder, Path::new("/target/debug"));
        let names: Vec<_> = found.all.iter().map(|one| (&one.kind[..], &one.name[..])).collect();
        assert_eq!(names, [("bin", "hydrozoa"), ("test", "limits")]);
        assert_eq!(found.named(&[("server", "limits")]).unwrap().0.len(), 1);
        assert!(found.named(&[("server", "limits"), ("serve", "models")]).is_err());
        assert!(Programs::found(Path::new("/checkout"), &messages[..5]).is_err());
    }
}

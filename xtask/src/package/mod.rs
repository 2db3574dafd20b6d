//! `cargo xtask package`: checks that the published crates work from a registry.
//!
//! cargo packs each crate and compiles it from its archive alone. The archives of the other crates take the place of
//! the registry. That finds a file that lies outside of its package. The resulting command then runs a Python, which
//! finds a payload that was built from a wrong place. A crate outside of the checkout then runs the README's sample.

mod external;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::external::External;
use crate::steps::Count;
use crate::workspace;

/// Files that each package must contain beside its sources.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Nobody debugs what is built here.
const WITHOUT_DEBUG: [(&str, &str); 2] =
    [("CARGO_PROFILE_DEV_DEBUG", "false"), ("CARGO_INCREMENTAL", "0")];

/// Packs, compiles and tries the crates. `jobs` limits how many of cargo's compilers run at once.
pub fn run(jobs: Option<usize>) -> Result<Count> {
    let target = workspace::root().join("target/packages");
    let packages = published()?;
    println!("packing {}", packages.join(", "));
    // cargo also keeps its build of a registry's package for ever.
    if target.exists() {
        std::fs::remove_dir_all(&target).context("removing an earlier build")?;
    }
    let home_folder = target.join("home");
    home(&home_folder)?;
    let status = workspace::cargo()
        .args(["publish", "--dry-run", "--quiet", "--workspace", "--allow-dirty", "--target-dir"])
        .arg(&target)
        .env("CARGO_HOME", &home_folder)
        .envs(WITHOUT_DEBUG)
        .envs(limit(jobs))
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the packages do not compile from their archives");
    for package in &packages {
        let folder = target.join("package").join(package);
        for file in FILES {
            ensure!(folder.join(file).is_file(), "the package {package} lacks {file}");
        }
    }
    let output = Command::new(target.join("debug/hydrozoa"))
        .args(["python", "-c", "print(6 * 7)"])
        .output()
        .context("starting the command that the packages make")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && printed.trim() == "42",
        "the command that the packages make printed {printed:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{} packages compile, and their command runs Python", packages.len());
    let folders: Vec<(String, PathBuf)> = packages
        .iter()
        .filter_map(|package| {
            let name = package.rsplit_once('-')?.0;
            Some((name.to_owned(), target.join("package").join(package)))
        })
        .collect();
    let external = External::create(&target, &folders, &home_folder, jobs)?;
    external.run()?;
    external.document()?;
    external.refuse_static()?;
    println!(
        "a crate that has them runs the README's sample; docs.rs can build their documentation"
    );
    Ok(Count { passed: packages.len() + 4, failed: 0 })
}

/// The variable that limits cargo's compilers.
fn limit(jobs: Option<usize>) -> Option<(&'static str, String)> {
    jobs.map(|jobs| ("CARGO_BUILD_JOBS", jobs.to_string()))
}

/// Makes a home for cargo in `folder`, with the downloads of the user's own home. cargo unpacks the archives of this
/// workspace into its home, and does not distinguish two archives of the same version. In a kept home, a later run
/// would compile older files.
fn home(folder: &Path) -> Result<()> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    for (shared, pattern) in
        [("", "config*"), ("registry/index", "[!-]*"), ("registry/cache", "[!-]*")]
    {
        // cargo makes a registry in a folder from the archives. Such a registry has no host, so its name begins with
        // a hyphen.
        let pattern = home.join(shared).join(pattern);
        let pattern = pattern.to_str().context("the path of cargo's home is not UTF-8")?;
        std::fs::create_dir_all(folder.join(shared))?;
        for entry in glob::glob(pattern)? {
            let entry = entry?;
            let name = entry.file_name().context("an entry of a folder has a name")?;
            std::os::unix::fs::symlink(&entry, folder.join(shared).join(name))
                .with_context(|| format!("linking {}", entry.display()))?;
        }
    }
    Ok(())
}

/// `name-version` of every crate of the workspace that may be published.
fn published() -> Result<Vec<String>> {
    let output = workspace::cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo lists the packages")?;
    // `publish = false` is an empty list of registries; without the key it is null.
    let names =
        packages.iter().filter(|package| package["publish"].is_null()).filter_map(|package| {
            Some(format!("{}-{}", package["name"].as_str()?, package["version"].as_str()?))
        });
    Ok(names.collect())
}

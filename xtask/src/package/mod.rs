//! `cargo xtask package`: checks that the published crates work from a registry.
//!
//! cargo packs each crate. A workspace of the unpacked archives alone is then compiled, in which they take the place of the
//! registry. That finds a file that lies outside of its package. The resulting command then runs a Python, which finds a
//! payload that was built from a wrong place. A crate that has the packages as its dependencies then runs the README's
//! sample.

mod alone;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::alone::Alone;
use crate::steps::Count;
use crate::workspace;

/// Files that each package must contain beside its sources.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packs, compiles and tries the crates.
pub fn run() -> Result<Count> {
    let target = workspace::target()?.join("packages");
    let packages = published()?;
    println!("packing {}", packages.join(", "));
    if target.exists() {
        std::fs::remove_dir_all(&target).context("removing an earlier build")?;
    }
    pack(&target, &packages)?;
    let folder = target.join("unpacked");
    for package in &packages {
        unpack(&target.join("package").join(format!("{package}.crate")), &folder)?;
        for file in FILES {
            let path = folder.join(package).join(file);
            ensure!(path.is_file(), "the package {package} lacks {file}");
        }
    }
    let packages = packages
        .iter()
        .filter_map(|package| Some((package.rsplit_once('-')?.0.to_owned(), package.clone())));
    let packages: Vec<(String, String)> = packages.collect();
    let alone = Alone::create(folder, &packages)?;
    alone.build()?;
    alone.command()?;
    println!("{} packages compile, and their command runs Python", packages.len());
    alone.sample()?;
    alone.document()?;
    alone.refuse_static()?;
    println!(
        "a crate that has them runs the README's sample; docs.rs can build their documentation"
    );
    Ok(Count { passed: packages.len() + 4, failed: 0 })
}

/// Packs the crates in a folder, without a look at what they are, and returns the archives.
pub fn archives(folder: &Path) -> Result<Vec<PathBuf>> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).context("removing earlier packages")?;
    }
    let packages = published()?;
    pack(folder, &packages)?;
    let archive = |package: &String| folder.join("package").join(format!("{package}.crate"));
    Ok(packages.iter().map(archive).collect())
}

/// Has cargo pack the crates in the folder `target`.
fn pack(target: &Path, packages: &[String]) -> Result<()> {
    let home_folder = target.join("home");
    home(&home_folder)?;
    let names = packages.iter().filter_map(|package| package.rsplit_once('-'));
    let status = workspace::cargo()
        .args(["package", "--no-verify", "--quiet", "--allow-dirty"])
        .args(names.flat_map(|(name, _)| ["--package", name]))
        .arg("--target-dir")
        .arg(target)
        .env("CARGO_HOME", &home_folder)
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the packages cannot be packed");
    Ok(())
}

/// Unpacks an archive in a folder. The archive contains a folder of its own name.
fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder).status();
    ensure!(status.context("starting tar")?.success(), "{} cannot be read", archive.display());
    Ok(())
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

//! `cargo xtask dist`: the files of a release, from a clean checkout. The same sources make the same bytes.
//!
//! | file | is |
//! |---|---|
//! | `machine` | the machines that it is for |
//! | `build` | the compiled libraries and programs, for glibc 2.28 and newer |
//! | `archive` | the command, the libraries, the headers and the backend of Triton, in one archive |
//! | `bill` | what is inside: a bill of materials (CycloneDX) |
//! | `cases` | the loader's own tests there |
//! | `trial` | the wheel and the archive in an empty Debian, as a user installs them |

mod archive;
mod bill;
mod build;
mod cases;
mod machine;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::build::Built;
pub use self::build::unwinding;
pub use self::machine::Machine;
pub use self::trial::briefly;
use crate::steps::Count;
use crate::{package, python, wheel, workspace};

/// Options of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder that gets the files, and loses what it has; without it `dist` in cargo's target folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The machine that the files are for. Those for aarch64 are a wheel, an archive and a bill of materials, added to the files that are there
    #[arg(long, value_enum, default_value = "x86_64")]
    machine: Machine,
    /// Install the wheel and the archive in an empty Debian 11, 12, 13 and sid, and run the README's first examples there (as root)
    #[arg(long, conflicts_with = "machine")]
    test: bool,
    /// Build nothing: test the files of an earlier run
    #[arg(long, requires = "test")]
    built: bool,
}

/// A megabyte, as indexes of wheels count.
const MEGABYTE: u64 = 1_000_000;

/// The most bytes of a wheel.
const MOST: u64 = 30 * MEGABYTE;

/// A program that computes with pandas and has C++ throw exceptions, and prints one line.
pub const THROWING: &str = include_str!("../../../tests/scripts/throwing.py");

/// The release that is made.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes the files of a release.
pub fn run(arguments: &Arguments) -> Result<()> {
    let out = match &arguments.out {
        Some(folder) => std::path::absolute(folder)?,
        None => folder()?,
    };
    match arguments.machine {
        Machine::Aarch64 => return add(&out, Machine::Aarch64),
        Machine::X86_64 if arguments.built => {}
        Machine::X86_64 => make(&out)?,
    }
    if arguments.test {
        trial::run(&out)?;
    }
    Ok(())
}

/// Makes the files, and tries them in each Debian.
pub fn checked() -> Result<Count> {
    let out = folder()?;
    make(&out)?;
    trial::run(&out)?;
    Ok(Count::one(true))
}

/// Where the files are by default.
pub fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("dist/files"))
}

/// The name of a machine's archive without its ending, and of the folder in it.
pub fn archive_name(machine: Machine) -> String {
    archive::name(machine)
}

/// A machine's wheel in a folder of files.
pub fn wheel_of(files: &Path, machine: Machine) -> Result<PathBuf> {
    wheel::only(files, machine.name())
        .with_context(|| format!("`cargo xtask dist --machine {}` makes it", machine.name()))
}

/// The first program of a page in a language.
pub fn sample(page: &str, language: &str) -> Result<String> {
    let text = fs::read_to_string(workspace::root().join(page))?;
    let (_, rest) = text
        .split_once(&format!("```{language}\n"))
        .with_context(|| format!("{page} has no program in {language}"))?;
    Ok(rest.split("```").next().unwrap_or_default().to_owned())
}

/// Adds the files of another machine.
fn add(out: &Path, machine: Machine) -> Result<()> {
    let since = epoch()?;
    let built = Built::new(machine, since)?;
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    pack(&built, out, since)?;
    bill::write(machine, &out.join(format!("hydrozoa-{VERSION}-{}.cdx.json", machine.name())))?;
    sums(out)?;
    list(out)
}

/// The wheel and the archive.
fn pack(built: &Built, out: &Path, since: u64) -> Result<()> {
    built.check_symbols()?;
    println!("the wheel");
    let files = wheel::Files {
        library: &built.library(),
        command: &built.command(),
        launcher: &built.launcher(),
    };
    let release = wheel::Release { machine: built.machine(), since };
    let wheel = wheel::pack(&python::find(None)?, &files, out, Some(release))?;
    let size = fs::metadata(&wheel)?.len();
    ensure!(size < MOST, "{} has {size} bytes, more than {MOST}", wheel.display());
    println!("the archive");
    archive::make(built, out, since)
}

fn make(out: &Path) -> Result<()> {
    let since = epoch()?;
    let built = Built::new(Machine::X86_64, since)?;
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("emptying {}", out.display()))?;
    }
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    pack(&built, out, since)?;
    println!("the crates");
    for archive in package::archives(&built.folder().join("crates"))? {
        let name = archive.file_name().context("an archive has a name")?;
        fs::copy(&archive, out.join(name)).context("copying a crate")?;
    }
    bill::write(Machine::X86_64, &out.join(format!("hydrozoa-{VERSION}.cdx.json")))?;
    fs::write(out.join(format!("hydrozoa-{VERSION}-changes.md")), changes()?)?;
    sums(out)?;
    list(out)
}

/// Prints the files with their sizes.
fn list(out: &Path) -> Result<()> {
    for entry in sorted(out)? {
        println!("{:>12} {}", fs::metadata(&entry)?.len(), entry.display());
    }
    Ok(())
}

/// The time of all files where neither the environment nor git tells one: 2020-02-02, which hatchling has for wheels.
const WITHOUT_GIT: u64 = 1_580_601_600;

/// The time of all files: that of the commit, in seconds since 1970 (reproducible-builds.org, SOURCE_DATE_EPOCH).
fn epoch() -> Result<u64> {
    if let Some(given) = std::env::var_os("SOURCE_DATE_EPOCH") {
        return given.to_string_lossy().parse().context("SOURCE_DATE_EPOCH is a number of seconds");
    }
    let mut git = Command::new("git");
    let output = git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root()).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout)?
            .trim()
            .parse()
            .context("git gives the time of the commit"),
        // An unpacked archive of the sources.
        _ => Ok(WITHOUT_GIT),
    }
}

/// The part of the changelog about this release, or about the next one if this one is not there yet.
fn changes() -> Result<String> {
    let log = fs::read_to_string(workspace::root().join("CHANGELOG.md"))?;
    part(&log, VERSION).or_else(|| part(&log, "Unreleased")).context("the changelog has no release")
}

fn part(log: &str, version: &str) -> Option<String> {
    let (_, rest) = log.split_once(&format!("\n## [{version}]"))?;
    let (_, body) = rest.split_once('\n')?;
    let body = body.split("\n## [").next().unwrap_or(body);
    Some(format!("# Hydrozoa {VERSION}\n\n{}\n", body.trim()))
}

/// The file of the digests.
const SUMS: &str = "SHA256SUMS";

/// The digests of all other files, as sha256sum(1) checks them.
fn sums(out: &Path) -> Result<()> {
    let names = sorted(out)?;
    let names = names.iter().filter_map(|path| path.file_name()).filter(|name| *name != SUMS);
    let output = Command::new("sha256sum").args(names).current_dir(out).output();
    let output = output.context("starting sha256sum")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(out.join(SUMS), output.stdout).context("writing the digests")
}

/// The files of a folder.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::{VERSION, part};

    #[test]
    fn the_changes_are_those_of_the_release() {
        let log = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.0.1] - 2020-01-01\n\n### Fixed\n\nold\n";
        assert_eq!(
            part(log, "0.0.1").unwrap(),
            format!("# Hydrozoa {VERSION}\n\n### Fixed\n\nold\n")
        );
        assert_eq!(part(log, "Unreleased").unwrap(), format!("# Hydrozoa {VERSION}\n\nnew\n"));
        assert_eq!(part(log, "0.0.2"), None);
    }
}

//! The compiled parts of a release, for all machines with glibc 2.28 or newer.
//!
//! zig is the linker and the C compiler. It brings stubs of glibc's libraries of each version, so a symbol that is newer cannot be linked, and
//! a symbol with several versions gets the one of that time. Both tools come from PyPI.
//!
//! Left to itself, zig puts an unwinder of its own into each file. The personality routines of Rust's frames would then read what gcc's unwinder
//! keeps, and an exception of C++ or the end of a cancelled thread that passes such a frame would crash. So each file names gcc's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::Machine;
use crate::cache::CacheFolder;
use crate::tools::succeeds;
use crate::triton::LIBRARY;
use crate::venv::Venv;
use crate::wheel::LAUNCHER;
use crate::{aarch64, python, tools, workspace};

/// The tools that compile for an older glibc.
const TOOLS: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// The compiled packages.
const PACKAGES: [&str; 3] = ["hydrozoa-cli", "hydrozoa-capi", "hydrozoa-triton"];

/// The program of the linker's cases.
pub const CASES: &str = "hydrozoa-linker-tests";

/// The loader's first example.
pub const COUNTERS: &str = "counters";

/// The newest version of a symbol of glibc.
const GLIBC: (u32, u32) = (2, 28);

/// gcc's unwinder.
pub const UNWINDER: &str = "libgcc_s.so.1";

/// Versions of Python with a payload.
const PAYLOADS: usize = 6;

/// The libraries and programs, without debug information.
pub struct Built {
    folder: PathBuf,
    machine: Machine,
}

impl Built {
    /// Compiles them.
    ///
    /// # Errors
    ///
    /// The tools cannot be installed, or cargo fails.
    pub fn new(machine: Machine, since: u64) -> Result<Self> {
        let entry = CacheFolder::open("dist-tools")?;
        let tools = tools(&entry)?;
        println!("compiling for glibc {}.{} (10 CPU minutes)", GLIBC.0, GLIBC.1);
        let folder = match machine {
            Machine::X86_64 => Self::here(tools.root(), since)?,
            Machine::Aarch64 => {
                let program = machine.binutils("strip");
                tools::install(&[(&program, "binutils-aarch64-linux-gnu")])?;
                let glibc = format!("{}.{}", GLIBC.0, GLIBC.1);
                aarch64::release::compile(tools.root(), &PACKAGES, &glibc, since)?
            }
        };
        let built = Self { folder, machine };
        built.strip()?;
        Ok(built)
    }

    /// Compiles by this machine's cargo, and returns the folder.
    fn here(tools: &Path, since: u64) -> Result<PathBuf> {
        let folder = workspace::target()?.join("dist");
        let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
        let mut cargo = zigbuild(workspace::cargo(), tools, &folder)?;
        cargo.arg("--release").args(packages).env("SOURCE_DATE_EPOCH", since.to_string());
        succeeds(&mut cargo)?;
        Ok(folder)
    }

    /// The machine that they are for.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The folder of everything that is made on the way.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of cargo's builds.
    fn compiled(&self) -> PathBuf {
        self.folder.join(self.machine.target()).join("release")
    }

    fn stripped(&self, name: &str) -> PathBuf {
        self.folder.join("stripped").join(name)
    }

    pub fn command(&self) -> PathBuf {
        self.stripped("hydrozoa")
    }

    pub fn launcher(&self) -> PathBuf {
        self.stripped(LAUNCHER)
    }

    pub fn library(&self) -> PathBuf {
        self.stripped("libhydrozoa.so")
    }

    pub fn static_library(&self) -> PathBuf {
        self.stripped("libhydrozoa.a")
    }

    pub fn backend(&self) -> PathBuf {
        self.stripped(LIBRARY)
    }

    /// Symbols stay: they name functions in reports of crashes.
    fn strip(&self) -> Result<()> {
        fs::create_dir_all(self.folder.join("stripped"))?;
        for name in ["hydrozoa", LAUNCHER, "libhydrozoa.so", "libhydrozoa.a", LIBRARY] {
            let (from, to) = (self.compiled().join(name), self.stripped(name));
            let mut strip = Command::new(self.machine.binutils("strip"));
            strip.args(["--strip-debug", "--enable-deterministic-archives", "-o"]);
            succeeds(strip.arg(&to).arg(&from))?;
        }
        Ok(())
    }

    /// Checks that nothing of a newer glibc is wanted, by the payloads inside of the command either.
    ///
    /// # Errors
    ///
    /// The names of symbols that are too new.
    pub fn check_symbols(&self) -> Result<()> {
        // cargo has a folder for each other machine.
        let other = match self.machine {
            Machine::X86_64 => String::new(),
            Machine::Aarch64 => self.machine.target() + "/",
        };
        let pattern = self.folder.join(format!("payload/*/{other}release/examples/libpayload.so"));
        let payloads = glob::glob(&pattern.to_string_lossy())?.collect::<Result<Vec<_>, _>>()?;
        ensure!(payloads.len() == PAYLOADS, "{} payloads, not {PAYLOADS}", payloads.len());
        let programs = [self.command(), self.launcher(), self.library(), self.backend()];
        for file in payloads.into_iter().chain(programs) {
            let output =
                Command::new(self.machine.binutils("objdump")).arg("-T").arg(&file).output();
            let output = output.context("starting objdump")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout)?;
            let (versions, newer) = versions(&text);
            ensure!(versions > 0, "{} wants nothing of glibc", file.display());
            ensure!(
                text.lines().any(|line| line.contains("*UND*") && line.ends_with("_Unwind_Resume")),
                "{} has an unwinder of its own",
                file.display()
            );
            ensure!(
                newer.is_empty(),
                "{} wants symbols that are newer than glibc {}.{}:\n{}",
                file.display(),
                GLIBC.0,
                GLIBC.1,
                newer.join("\n")
            );
        }
        Ok(())
    }
}

/// How much is compiled for the tests in a Debian, beside the files of a release.
pub enum Extent {
    /// Tests of the loader, compiled as a release is: [`CASES`] and [`COUNTERS`].
    Whole,
    /// These and the command, not optimized: the suite has no time for more.
    Part,
}

/// Compiles them, and returns their folder.
///
/// # Errors
///
/// The tools cannot be installed, or cargo fails.
pub fn programs(extent: &Extent) -> Result<PathBuf> {
    let folder = workspace::target()?.join("dist");
    let entry = CacheFolder::open("dist-tools")?;
    let tools = tools(&entry)?;
    let (mut cargo, profile) = match extent {
        Extent::Whole => {
            let mut cargo = zigbuild(workspace::cargo(), tools.root(), &folder)?;
            cargo.arg("--release");
            (cargo, "release")
        }
        Extent::Part => {
            let mut cargo = zigbuild(workspace::patient_cargo(), tools.root(), &folder)?;
            cargo.args(["--quiet", "--package", "hydrozoa-cli", "--bin", "hydrozoa"]);
            cargo.env("CARGO_PROFILE_DEV_DEBUG", "none");
            (cargo, "debug")
        }
    };
    cargo.args(["--package", CASES, "--bin", CASES]);
    cargo.args(["--package", "hydrozoa-loader", "--example", COUNTERS]);
    succeeds(&mut cargo)?;
    Ok(folder.join(Machine::X86_64.target()).join(profile))
}

/// The tools that compile for an older glibc, installed.
fn tools(entry: &CacheFolder) -> Result<Venv> {
    let tools = Venv::open(&python::find(None)?, entry.folder(), true)?;
    if let Err(reason) = tools.install(&TOOLS)? {
        bail!("the tools that compile for an older glibc cannot be installed: {reason}");
    }
    Ok(tools)
}

/// cargo, told to compile in a folder for this machine and the older glibc.
fn zigbuild(mut cargo: Command, tools: &Path, folder: &Path) -> Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    let glibc = format!("{}.{}.{}", Machine::X86_64.target(), GLIBC.0, GLIBC.1);
    cargo.args(["zigbuild", "--locked", "--target", &glibc]);
    cargo.arg("--target-dir").arg(folder);
    cargo.env("PATH", std::env::join_paths(folders)?);
    cargo.env("HYDROZOA_PAYLOAD_TARGET", folder.join("payload"));
    cargo.env("HYDROZOA_PAYLOAD_FLAGS", unwinder()?).env("CARGO_INCREMENTAL", "0");
    cargo.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags()?);
    Ok(cargo)
}

/// How many lines of `objdump -T` name a version of glibc, and those whose version is too new.
fn versions(text: &str) -> (usize, Vec<&str>) {
    let mut count = 0;
    let mut newer = Vec::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once("GLIBC_") else { continue };
        let version: Vec<u32> = rest
            .split(|one: char| !one.is_ascii_digit() && one != '.')
            .next()
            .unwrap_or("")
            .split('.')
            .map_while(|part| part.parse().ok())
            .collect();
        count += 1;
        // GLIBC_PRIVATE has no number, and is of one release alone.
        let is_old = matches!(version[..], [major, minor, ..] if (major, minor) <= GLIBC);
        if !is_old {
            newer.push(line);
        }
    }
    (count, newer)
}

/// The flags with which no path of this machine is in the files, and no unwinder.
fn flags() -> Result<OsString> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let mut flags = OsString::new();
    for (from, to) in [(&*home, "cargo"), (workspace::root(), "hydrozoa")] {
        flags.push("--remap-path-prefix=");
        flags.push(from);
        flags.push(format!("={to}\u{1f}"));
    }
    flags.push(unwinder()?);
    Ok(flags)
}

/// The flags with which a file uses this machine's unwinder.
fn unwinder() -> Result<String> {
    let output = Command::new("gcc").arg(format!("-print-file-name={UNWINDER}")).output();
    let output = output.context("starting gcc, whose unwinder is linked")?;
    Ok(unwinding(String::from_utf8(output.stdout)?.trim()).join("\u{1f}"))
}

/// Rust's flags with which a file uses the unwinder at a path. That refers to symbols of a newer glibc itself.
pub fn unwinding(path: &str) -> [String; 2] {
    [format!("-Clink-arg={path}"), "-Clink-arg=-Wl,--allow-shlib-undefined".to_owned()]
}

#[cfg(test)]
mod tests {
    use super::versions;

    #[test]
    fn symbols_that_are_too_new_are_named() {
        let text = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) pthread_create
0000000000000000  w   DF *UND*\t0000000000000000 (GLIBC_2.28) statx
0000000000000000      DO *UND*\t0000000000000000 (GLIBC_PRIVATE) _rtld_global
0000000000000000      DF *UND*\t0000000000000000 (GCC_3.0) _Unwind_Resume
";
        let (count, newer) = versions(text);
        assert_eq!(count, 4);
        assert_eq!(newer.len(), 2);
        assert!(newer[0].ends_with("pthread_create") && newer[1].ends_with("_rtld_global"));
    }
}

//! A release: its compiled parts, by the Rust of the system; and its wheel and its archive there, as a user installs them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::system::{MINOR, System};
use super::{TARGET, fetched};
use crate::dist::{self, Machine};
use crate::steps::{Count, Outcome};
use crate::{cache, debian};

/// Where the tools are that link for an older glibc.
const TOOLS: &str = "/opt/tools";

/// gcc's unwinder, as the system has it.
const UNWINDER: &str = "/usr/lib/aarch64-linux-gnu/libgcc_s.so.1";

/// The folder of the builds, as the system has it.
const BUILT: &str = "/target/dist";

/// Compiles packages for a version of glibc by cargo-zigbuild and zig, which are in a virtual environment of this machine, and returns the folder.
///
/// # Errors
///
/// The system cannot be made, or cargo fails.
pub fn compile(tools: &Path, packages: &[&str], glibc: &str, since: u64) -> Result<PathBuf> {
    debian::is_possible()?;
    let system = System::with(&[(tools.to_owned(), TOOLS.to_owned())])?;
    let zig = glob::glob(&tools.join("lib/python3*/site-packages/ziglang/zig").to_string_lossy())?
        .next()
        .context("the tools have no zig")??;
    let zig = format!("{TOOLS}/{}", zig.strip_prefix(tools)?.display());
    let packages: Vec<String> = packages.iter().map(|name| format!("--package {name}")).collect();
    // cargo-zigbuild's own linker is asked for by that variable, which is set for the system's gcc.
    system.run(&format!(
        "unset CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER; \
         export PATH={TOOLS}/bin:$PATH CARGO_ZIGBUILD_ZIG_PATH={zig} CARGO_INCREMENTAL=0 SOURCE_DATE_EPOCH={since} \
         HYDROZOA_PAYLOAD_TARGET={BUILT}/payload HYDROZOA_PAYLOAD_FLAGS=$(printf -- '{unwinding}') \
         CARGO_ENCODED_RUSTFLAGS=$(printf -- '--remap-path-prefix=%s/.cargo=cargo\\037--remap-path-prefix=/src=hydrozoa\\037{unwinding}' {home}); \
         cargo zigbuild --release --locked --target {TARGET}.{glibc} --target-dir {BUILT} {}",
        packages.join(" "),
        home = debian::HOME,
        unwinding = dist::unwinding(UNWINDER).join("\\037"),
    ))?;
    Ok(cache::root()?.join("aarch64-target/dist"))
}

/// Numbers are right in the README's first program, and the command finds the Python there.
pub(super) fn run(system: &System) -> Result<Outcome> {
    let files = dist::folder()?;
    let name = dist::archive_name(Machine::Aarch64);
    let wheel = dist::wheel_of(&files, Machine::Aarch64)?;
    let pip = fetched::wheels(system, "pip", &["pip==26.0"])?;
    let site = fetched::packages(system, "site", &super::copies::WHEELS)?;
    let place = "/srv/release";
    debian::remove(&system.inside(place))?;
    fs::create_dir_all(system.inside(place))?;
    for file in [&wheel, &files.join(format!("{name}.tar.gz"))] {
        let name = file.file_name().context("a file has a name")?;
        debian::copy(file, &system.inside(place).join(name))?;
    }
    let readme = system.write("readme.py", &dist::sample("README.md", "python")?)?;
    let python = format!("/usr/bin/python3.{MINOR}");
    let wheel = wheel.file_name().unwrap_or_default().to_string_lossy();
    // pip itself decides there whether the wheel is for the machine.
    system.run(&format!(
        "PYTHONPATH=$(echo {pip}/pip-*.whl) {python} -m pip install --quiet --no-index --target {place}/installed {place}/{wheel}"
    ))?;
    let printed = system
        .output(&format!("cd {place} && PYTHONPATH={place}/installed:{site} {python} {readme}"))?;
    ensure!(printed.trim() == "2000000.0", "the README's program prints {printed}");
    system.run(&format!("{place}/installed/bin/hydrozoa doctor"))?;
    system.run(&format!("cd {place} && tar -xzf {name}.tar.gz"))?;
    let answer = system.output(&format!(
        "PYTHONPATH={site} {place}/{name}/bin/hydrozoa python --python {python} --copies 3 --in all \
         -c 'import numpy; print(numpy.ones((300, 300)).sum())'"
    ))?;
    ensure!(answer == "90000.0\n".repeat(3), "the archive's command prints {answer}");
    Ok(Count { passed: 3, failed: 0 }.into())
}

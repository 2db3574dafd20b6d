//! `hydrozoa doctor`.

mod libraries;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use hydrozoa::limits;
use hydrozoa::python::{Installation, discover, examine};

#[derive(clap::Args)]
pub struct Options {
    /// Only look; start no interpreter
    #[arg(long)]
    quick: bool,
    /// Look at this virtual environment alone, not at every Python that the command finds
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
}

/// Collects problems, each with the way to fix it.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }
}

/// The exit status is 1 if something would fail.
pub fn run(options: &Options) -> Result<i32> {
    let mut findings = Findings::default();
    pythons(options, &mut findings)?;
    system(&mut findings)?;
    say!();
    if findings.0.is_empty() {
        say!("nothing would fail");
        return Ok(0);
    }
    say!("what would fail, and how to fix it:");
    for finding in &findings.0 {
        say!("  - {finding}");
    }
    Ok(1)
}

fn pythons(options: &Options, findings: &mut Findings) -> Result<()> {
    say!("Pythons, best first:");
    let mut usable = 0;
    let candidates = match &options.venv {
        Some(venv) => vec![examine(venv)],
        None => discover(),
    };
    for candidate in candidates {
        say!("  {candidate}");
        let python = match &candidate.verdict {
            Ok(python) => python,
            Err(refusal) if options.venv.is_some() => {
                findings.add(format!("{}: {refusal}", candidate.path.display()));
                return Ok(());
            }
            Err(_) => continue,
        };
        usable += 1;
        let first = usable == 1;
        let torch = torch(python);
        match &torch {
            Some(torch) => say!("    torch {torch}"),
            None if first => say!("    no torch"),
            None => {}
        }
        if first {
            libraries::report(python, findings);
        }
        if options.quick {
            continue;
        }
        match trial(python, first && torch.is_some()) {
            Ok(what) => say!("    tried: {what}"),
            Err(error) => {
                say!("    tried: {error:#}");
                findings.add(format!("{}: {error:#}", python.library().display()));
            }
        }
    }
    if usable == 0 {
        findings.add(
            "there is no Python with a shared library: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install 3.11, \
             or the distribution's libpython package",
        );
    }
    Ok(())
}

/// The release of torch that the Python finds, and where, as the package's metadata say it.
fn torch(python: &Installation) -> Option<String> {
    const QUESTION: &str = "from importlib.metadata import distribution; \
                            torch = distribution('torch'); print(torch.version, 'in', torch.locate_file('torch'))";
    let output = Command::new(python.executable()?).args(["-I", "-c", QUESTION]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Starts two interpreters in a child process. They use torch if the caller asks for it. Says what the second takes.
fn trial(python: &Installation, with_torch: bool) -> Result<String> {
    let program = if with_torch {
        "import torch; torch.ones(2).sum()"
    } else {
        "import json, threading, ctypes"
    };
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["bench", "--memory", "--samples", "--python"]).arg(python.library());
    if let Some(venv) = python.venv() {
        command.arg("--venv").arg(venv);
    }
    let output =
        command.args(["--run", program]).output().context("starting this program again")?;
    let message = String::from_utf8_lossy(&output.stderr);
    let last = message.lines().last().unwrap_or("it said nothing");
    anyhow::ensure!(output.status.success(), "two copies do not work: {}: {last}", output.status);
    let further: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("reading what the second takes")?;
    let mebibytes = |name: &str| further[name].as_i64().unwrap_or_default().max(0) >> 20;
    let (private, malloc) = (mebibytes("private"), mebibytes("malloc"));
    let what = if with_torch { "two copies import torch" } else { "two copies work" };
    Ok(format!("{what}; the second takes {private} MiB, and {malloc} MiB from malloc"))
}

fn system(findings: &mut Findings) -> Result<()> {
    say!("System:");
    say!("  {}", getconf("GNU_LIBC_VERSION").unwrap_or_else(|| "no glibc".to_owned()));
    match getconf("GNU_LIBC_VERSION").as_deref().and_then(glibc) {
        Some(version) if version < (2, 28) => findings.add(format!(
            "glibc {}.{} is older than 2.28: use a system of 2018 or later",
            version.0, version.1
        )),
        // Before that glibc has no _dl_find_object, so libgcc asks dl_iterate_phdr, and no second version of r_debug.
        Some(version) if version < (2, 35) => {
            say!("    C++ exceptions take longer than with 2.35, and gdb does not see replicas");
        }
        Some(_) => {}
        None => findings.add("this is not glibc: musl's and others' loaders are not supported"),
    }
    let mappings = number("/proc/sys/vm/max_map_count");
    if let Some(limit) = mappings {
        let room = limit.saturating_sub(2000);
        let fit = room / limits::MAPPINGS;
        let settled = room / (limits::MAPPINGS + limits::SETTLED_MAPPINGS);
        say!(
            "  vm.max_map_count {limit}: room for about {fit} interpreters with torch and torchvision, or {settled} that are \
             settled again and again"
        );
        if fit < 16 {
            findings
                .add(format!("vm.max_map_count {limit} is low: sysctl -w vm.max_map_count=262144"));
        }
    }
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    if let Some(kib) = memory {
        say!(
            "  {} MiB of memory available: room for about {} interpreters with torch and torchvision",
            kib / 1024,
            kib * 1024 / limits::PRIVATE_MEMORY
        );
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    say!("  {cores} cores");
    for path in ["/proc/self/smaps", "/proc/self/pagemap", "/proc/self/maps"] {
        if !Path::new(path).exists() {
            findings.add(format!("{path} is missing: memory cannot be measured"));
        }
    }
    Ok(())
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A version by `getconf(1)`, which comes with glibc.
fn getconf(name: &str) -> Option<String> {
    let output = Command::new("getconf").arg(name).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// `glibc 2.36` as (2, 36).
fn glibc(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_glibc_is_read() {
        assert_eq!(glibc("glibc 2.36"), Some((2, 36)));
        assert_eq!(glibc("musl 1.2"), None);
    }
}

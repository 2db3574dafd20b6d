//! The wheel and the archive of a release in an empty Debian without Rust and without the checkout, as a user installs it.
//!
//! The Debians are 12, 13 and the unstable one, with their own CPythons, and 11: that has glibc 2.31 and no CPython that Hydrozoa knows, so one is built there from the sources
//! that Debian 12 has. Beside the C libraries of the others the loader's own tests run, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::Extent;
use super::cases::Cases;
use super::{Machine, THROWING, archive, sample, sorted, wheel_of};
use crate::cache::{self, CacheFolder};
use crate::debian::{self, Root};
use crate::steps::Count;
use crate::tools::succeeds;

/// A Debian, and the Python there.
pub(super) struct System {
    release: &'static str,
    packages: &'static str,
    python: &'static str,
    /// The command that makes that Python of the sources in /srv/python.
    makes_python: Option<&'static str>,
    /// Cases of the linker that are others beside the C library there. Nothing if none of them runs.
    others: Option<&'static [&'static str]>,
}

const SYSTEMS: [&System; 4] =
    [&BOOKWORM, &BULLSEYE, &System::newer("trixie"), &System::newer("sid")];

const BOOKWORM: System = System {
    release: "bookworm",
    packages: "ca-certificates,g++,libpython3.11,pkg-config,python3,python3-venv",
    python: "/usr/bin/python3",
    makes_python: None,
    others: None,
};

/// The suite tries it: it has the oldest glibc.
const BULLSEYE: System = System {
    release: "bullseye",
    packages: "ca-certificates,g++,libbz2-dev,libffi-dev,liblzma-dev,libsqlite3-dev,libssl-dev,make,pkg-config,zlib1g-dev",
    python: "/opt/python/bin/python3",
    makes_python: Some(
        "cd /srv/python && ./configure --quiet --enable-shared --prefix=/opt/python LDFLAGS=-Wl,-rpath,/opt/python/lib && make -s -j2 && make -s install && rm -rf /srv/python",
    ),
    // Libraries that need each other in a circle end in another order before glibc 2.35, and a sanitizer's own output is another one.
    others: Some(&["close_program_order_in_cycle", "sanitizer_address"]),
};

impl System {
    const fn newer(release: &'static str) -> Self {
        let python = "/usr/bin/python3";
        Self { release, packages: NEWER, python, makes_python: None, others: Some(&[]) }
    }
}

/// With the release's own Python, whichever that is.
const NEWER: &str = "ca-certificates,g++,libpython3-dev,pkg-config,python3,python3-venv";

/// The sources of Python in Debian 12.
const SOURCES: (&str, &str) = ("bookworm", "python3.11");

/// Where the files of the release are.
const FILES: &str = "/opt/files";

/// Seconds of a step: what hangs shall fail.
const PATIENCE: u64 = 600;

const PATH: &str = "/usr/local/bin:/opt/python/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Packages of PyPI that the copies import.
const PACKAGES: &str = "numpy pandas contourpy flask";

/// Served by `hydrozoa run`.
const SHOP: &str = "
from flask import Flask
app = Flask(__name__)

@app.get('/')
def index():
    return 'open'
";

/// Asks the server until it answers, and ends it.
const ASK: &str = "
import subprocess, sys, time, urllib.request
server = subprocess.Popen(sys.argv[1:])
for _ in range(300):
    try:
        assert urllib.request.urlopen('http://127.0.0.1:8000/', timeout=10).read() == b'open'
        break
    except OSError:
        time.sleep(0.1)
else:
    raise SystemExit('the server does not answer')
server.terminate()
assert server.wait(60) == 0
";

/// Installs and tries the files in a folder.
///
/// # Errors
///
/// A step fails. The root stays then.
pub fn run(files: &Path) -> Result<()> {
    debian::is_possible()?;
    let cases = Cases::new(&Extent::Whole)?;
    for system in SYSTEMS {
        tried(files, &cases, system, &made(system)?)?;
    }
    Ok(())
}

/// Tries the command, not optimized, and a part of the loader's tests in Debian 11. A machine that cannot make one says so aloud.
///
/// # Errors
///
/// A step fails. The root stays then.
pub fn briefly() -> Result<Count> {
    let system = &BULLSEYE;
    let entry = match debian::is_possible().and_then(|()| made(system)) {
        Ok(entry) => entry,
        Err(error) => {
            println!("NOTHING IS TRIED IN DEBIAN 11: {error:#}");
            return Ok(Count::default());
        }
    };
    println!("compiling for glibc 2.28, not optimized (5 CPU minutes)");
    let cases = Cases::new(&Extent::Part)?;
    let root = rooted(system, &entry, Vec::new())?;
    let release = Release { root: &root, python: system.python };
    release.environment("")?;
    release.copies(&cases.command().display().to_string())?;
    release.cases(&cases, system)?;
    root.remove()?;
    Ok(Count::one(true))
}

/// An empty system with the loader's tests, and folders of this machine beside them.
fn rooted(
    system: &System,
    entry: &CacheFolder,
    mut mounted: Vec<(PathBuf, String)>,
) -> Result<Root> {
    let root = cache::root()?.join(format!("dist-root-{}", system.release));
    mounted.push((PathBuf::from("/etc/ssl"), "/etc/ssl".to_owned()));
    mounted.extend(Cases::mounted()?);
    let root = Root::new(root, mounted);
    root.fill(entry.folder())?;
    for (name, text) in [("throwing.py", THROWING), ("shop.py", SHOP), ("ask.py", ASK)] {
        write(&root, name, text)?;
    }
    Ok(root)
}

/// Installs and tries the files in one system.
fn tried(files: &Path, cases: &Cases, system: &System, entry: &CacheFolder) -> Result<()> {
    println!("\nDebian {}", system.release);
    check_sums(files)?;
    let root = rooted(system, entry, vec![(files.to_owned(), FILES.to_owned())])?;
    write(&root, "readme.py", &sample("README.md", "python")?)?;
    write(&root, "first.c", &sample("docs/c.md", "c")?)?;
    let release = Release { root: &root, python: system.python };
    release.wheel(files).context("the wheel")?;
    release.archive().context("the archive")?;
    release.cases(cases, system)?;
    root.remove()
}

/// A release in a root.
struct Release<'a> {
    root: &'a Root,
    python: &'a str,
}

impl Release<'_> {
    /// Runs a line without single quotes.
    fn step(&self, line: &str) -> Result<()> {
        println!("$ {line}");
        // The shell stays: timeout(1) refuses to be the first process of a machine.
        let limited = format!("cd ~ && timeout {PATIENCE} bash -c '{line}'; exit $?");
        self.root.run(PATH, &limited).with_context(|| line.to_owned())
    }

    /// `pip install`, the README's program, and the command that the wheel has.
    fn wheel(&self, files: &Path) -> Result<()> {
        let wheel = wheel_of(files, Machine::X86_64)?;
        let wheel = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.environment(&format!("{FILES}/{wheel}"))?;
        self.step("venv/bin/python readme.py")?;
        self.step("venv/bin/hydrozoa doctor")?;
        self.copies("venv/bin/hydrozoa")
    }

    /// An environment with a further package, and what plain python prints there.
    fn environment(&self, package: &str) -> Result<()> {
        self.step(&format!("{} -m venv venv", self.python))?;
        self.step(&format!("venv/bin/pip install --quiet {package} {PACKAGES}"))?;
        self.step("venv/bin/python throwing.py >plain && cat plain")
    }

    /// The loader's tests, where they differ by the C library.
    fn cases(&self, cases: &Cases, system: &System) -> Result<()> {
        for line in system.others.into_iter().flat_map(|others| cases.lines(others)) {
            self.step(&line).context("the loader's tests")?;
        }
        Ok(())
    }

    /// Three copies at once print what plain python prints.
    fn copies(&self, command: &str) -> Result<()> {
        self.step(&format!("{command} python --venv venv --copies 3 --in all throwing.py >copies; cat plain plain plain | cmp - copies"))
    }

    /// The archive in `/usr/local`, a program of C, and a server.
    fn archive(&self) -> Result<()> {
        let name = archive::name(Machine::X86_64);
        self.step(&format!("tar -xzf {FILES}/{name}.tar.gz -C /usr/local --strip-components=1"))?;
        self.step("ldconfig")?;
        self.step("gcc first.c $(pkg-config --cflags --libs hydrozoa) -o first && test \"$(./first)\" = 1.414214")?;
        self.copies("hydrozoa")?;
        self.step("test -f /usr/local/backends/hydrozoa/libtriton_hydrozoa.so")?;
        self.step(&format!("{} ask.py hydrozoa run shop:app --venv venv", self.python))
    }
}

/// The system, with its Python.
fn made(system: &System) -> Result<CacheFolder> {
    let entry = CacheFolder::open(&format!("dist-{}", system.release))?;
    entry.complete(|folder| {
        debian::make(folder, system.release, system.packages)?;
        let Some(line) = system.makes_python else { return Ok(()) };
        println!("building a CPython there (5 CPU minutes)");
        sources(&folder.join("srv/python"))?;
        Root::new(folder.to_owned(), Vec::new())
            .run(PATH, &format!("({line}) >/srv/python.log 2>&1"))
    })?;
    Ok(entry)
}

/// Fetches the sources of Python by this machine's apt, and unpacks them in a folder.
fn sources(folder: &Path) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let list = scratch.path().join("list");
    let (release, package) = SOURCES;
    let archive = archive_of(release)?;
    fs::write(&list, format!("deb-src {archive} {release} main\n"))?;
    let lists = scratch.path().join("lists");
    fs::create_dir(&lists)?;
    let apt = |words: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").arg("-o").arg(format!("Dir::Etc::SourceList={}", list.display()));
        apt.args(["-o", "Dir::Etc::SourceParts=-", "-o", "APT::Sandbox::User=root"]);
        apt.arg("-o").arg(format!("Dir::State::Lists={}", lists.display()));
        succeeds(apt.args(words).current_dir(scratch.path()))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", package])?;
    let archive = sorted(scratch.path())?
        .into_iter()
        .find(|path| path.to_string_lossy().contains(".orig.tar."))
        .context("apt-get fetches no sources of Python")?;
    fs::create_dir_all(folder)?;
    succeeds(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("--strip-components=1")
            .arg("-C")
            .arg(folder),
    )
}

/// Where this machine gets a release of Debian from.
fn archive_of(release: &str) -> Result<String> {
    let known = || -> Result<Option<String>> {
        let mut apt = Command::new("apt-get");
        apt.args(["indextargets", "--format", "$(REPO_URI)"]);
        apt.args(["Created-By: Packages", "Component: main", &format!("Codename: {release}")]);
        let output = apt.output().context("starting apt-get")?;
        Ok(String::from_utf8(output.stdout)?.lines().next().map(str::to_owned))
    };
    if let Some(archive) = known()? {
        return Ok(archive);
    }
    // It knows none until it has fetched their lists.
    succeeds(Command::new("apt-get").args(["-qq", "update"]))?;
    known()?.with_context(|| format!("this machine's apt has no archive of Debian {release}"))
}

fn write(root: &Root, name: &str, text: &str) -> Result<()> {
    let path = root.inside("/root").join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// Checks the digests.
fn check_sums(files: &Path) -> Result<()> {
    let status = Command::new("sha256sum")
        .args(["--check", "--quiet", "--strict", "SHA256SUMS"])
        .current_dir(files)
        .status();
    ensure!(status.context("starting sha256sum")?.success(), "{} is damaged", files.display());
    Ok(())
}

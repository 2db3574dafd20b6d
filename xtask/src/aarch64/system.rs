//! The system: Debian's unstable release, whose Rust is new enough, with libraries of two machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{self, CacheFolder};
use crate::debian::{self, Root};
use crate::steps::Outcome;
use crate::tools::succeeds;
use crate::{libtest, workspace};

const RELEASE: &str = "sid";

/// Compilers for this machine and the other one, the emulator, and a CPython of the other machine's.
const PACKAGES: &str = "cargo rustc libstd-rust-dev:arm64 gcc g++ gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev:arm64 \
                        qemu-user locales libpython3.14:arm64 libgomp1:arm64";

/// The package with the program `python3.14`. Its scripts run what it installs, which this machine cannot, so it is unpacked alone.
const PROGRAM: &str = "python3.14-minimal:arm64";

/// The minor version of that CPython.
pub(super) const MINOR: u8 = 14;

/// ELF files of AArch64, in the form of binfmt_misc, and the emulator for them.
const FORMAT: &str = concat!(
    r":aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
    ":/usr/bin/qemu-aarch64:P"
);

/// The processor that is emulated. By the emulator's largest one, plain python computes NaN in numpy.
const PROCESSOR: &str = "cortex-a76";

/// Signals of the emulated program, those of this machine that they become, and how many. The emulator wants two for itself. By default
/// the last three of the program would be lost.
const SIGNALS: &str = "32 37 25,62 62 3";

/// `cc` and `c++` are those for the other machine: tests compile what they load.
const PATH: &str = "/usr/local/cross:/usr/bin:/bin:/usr/sbin:/sbin";
const HOST_PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// The system, with the sources.
pub(super) struct System {
    root: Root,
    /// Nobody else changes it meanwhile.
    _entry: CacheFolder,
}

impl System {
    /// Makes it unless an earlier run has, and fetches the crates.
    pub(super) fn prepare() -> Result<Self> {
        Self::with(&[])
    }

    /// The same with further folders of this machine, and their places.
    pub(super) fn with(further: &[(PathBuf, String)]) -> Result<Self> {
        let entry = CacheFolder::open("aarch64")?;
        entry.complete(fill)?;
        // With this machine's cargo, which knows how to reach the registry.
        let mut cargo = Command::new("cargo");
        succeeds(cargo.args(["fetch", "--locked"]).current_dir(workspace::root()))?;
        let target = cache::root()?.join("aarch64-target");
        let registry = cargo_home()?.join("registry");
        let mounted = [
            (workspace::root().to_owned(), "/src".to_owned()),
            (target, "/target".to_owned()),
            (registry, format!("{}/.cargo/registry", debian::HOME)),
        ];
        let mounted = mounted.into_iter().chain(further.iter().cloned()).collect();
        let root = Root::new(entry.folder().to_owned(), mounted).emulating(FORMAT);
        root.connect()?;
        Ok(Self { root, _entry: entry })
    }

    /// Runs a line of a shell in the folder of the sources.
    pub(super) fn run(&self, line: &str) -> Result<()> {
        println!("$ {line}");
        self.root.run(PATH, &whole(line)).with_context(|| line.to_owned())
    }

    /// The same for a line that runs tests of cargo's, which are counted.
    pub(super) fn counted(&self, line: &str) -> Result<Outcome> {
        println!("$ {line}");
        libtest::counted(&mut self.command(line))
    }

    /// Runs a line and returns its output.
    pub(super) fn output(&self, line: &str) -> Result<String> {
        println!("$ {line}");
        let output = self.command(line).output().context("starting unshare")?;
        anyhow::ensure!(
            output.status.success(),
            "{line} ended with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs a line with this machine's programs.
    pub(super) fn own(&self, line: &str) -> Result<()> {
        println!("$ {line}");
        self.root.run(HOST_PATH, line).with_context(|| line.to_owned())
    }

    /// A command that runs a line.
    pub(super) fn command(&self, line: &str) -> Command {
        self.root.command(PATH, &whole(line))
    }

    /// A path of the system as this machine has it.
    pub(super) fn inside(&self, path: &str) -> PathBuf {
        self.root.inside(path)
    }

    /// Writes a file into the folder of the programs that steps run.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<String> {
        let inside = format!("/srv/programs/{name}");
        let path = self.root.inside(&inside);
        fs::create_dir_all(self.root.inside("/srv/programs")).context("making a folder")?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(inside)
    }
}

/// A line with all that it needs. The shell stays: a process that is the first of its machine has no handlers of signals by default.
fn whole(line: &str) -> String {
    let variables = [
        ("CARGO_TARGET_DIR", "/target"),
        ("CARGO_NET_OFFLINE", "true"),
        ("HYDROZOA_PAYLOAD_TARGET", "/target/payload"),
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc"),
        ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "x86_64-linux-gnu-gcc"),
        ("CC_x86_64_unknown_linux_gnu", "x86_64-linux-gnu-gcc"),
        ("QEMU_CPU", PROCESSOR),
        ("QEMU_RTSIG_MAP", SIGNALS),
    ];
    let exports: Vec<String> =
        variables.iter().map(|(name, value)| format!("export {name}='{value}'")).collect();
    format!("cd /src; {}; {line}; exit $?", exports.join("; "))
}

fn cargo_home() -> Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(home).context("neither CARGO_HOME nor HOME is set")
}

/// Makes the system in an empty folder.
fn fill(folder: &Path) -> Result<()> {
    debian::make(folder, RELEASE, "ca-certificates")?;
    let root = Root::new(folder.to_owned(), Vec::new());
    root.connect()?;
    // An archive that is a copy of an earlier day is as good.
    let apt = "apt-get -qq -o Acquire::Check-Valid-Until=false";
    for line in [
        "dpkg --add-architecture arm64".to_owned(),
        format!("{apt} update"),
        format!("DEBIAN_FRONTEND=noninteractive {apt} install -y --no-install-recommends {PACKAGES}"),
        format!("cd /srv && {apt} -o APT::Sandbox::User=root download {PROGRAM} && dpkg -x python3*.deb /"),
        "mkdir /usr/local/cross /src /target && cd /usr/local/cross && \
         for name in cc gcc; do ln -s /usr/bin/aarch64-linux-gnu-gcc $name; done && \
         for name in c++ g++; do ln -s /usr/bin/aarch64-linux-gnu-g++ $name; done && \
         for name in ld.bfd ld.gold; do if [ -e /usr/bin/aarch64-linux-gnu-$name ]; then ln -s /usr/bin/aarch64-linux-gnu-$name $name; fi; done"
            .to_owned(),
    ] {
        println!("$ {line}");
        // dpkg has a thousand lines.
        let quiet = format!("({line}) >>/srv/making.log 2>&1");
        root.run(HOST_PATH, &quiet).with_context(|| {
            format!("{line} fails; {} says why", root.inside("/srv/making.log").display())
        })?;
    }
    Ok(())
}

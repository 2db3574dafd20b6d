//! The empty root: a Debian with a C++ compiler and a CPython, and nothing of this machine but its Rust.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{self, CacheFolder};
use crate::{tools, workspace};

/// Debian's release, whose CPython is [`PACKAGES`]'s.
const RELEASE: &str = "bookworm";

/// The README's requirements, beside Rust.
const PACKAGES: &str = "ca-certificates,g++,libpython3.11,python3,python3-venv";

/// The tool that makes the root.
const TOOLS: [(&str, &str); 1] = [("debootstrap", "debootstrap")];

/// Variables of this machine with which cargo and pip reach their registries.
const KEPT: [&str; 6] =
    ["PIP_", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "SSL_CERT_", "REQUESTS_CA_"];

/// Files of this machine with which they do, where they are there.
const CONFIGURATION: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"];

/// The newcomer's home, which has the checkout.
const HOME: &str = "/root";

/// Mounts the rest of the root, for this process and those that it starts, and runs the last argument there. The pairs before it
/// are folders of this machine and their places.
const ENTER: &str = r#"
set -e
root=$1; shift
while [ $# -gt 1 ]; do mount --bind "$1" "$root$2"; shift 2; done
mount -o remount,bind,ro "$root/opt/rust"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
exec chroot "$root" bash -c "cd ~/hydrozoa && $1"
"#;

/// A root that one user has.
pub struct Root {
    folder: PathBuf,
    mounted: Vec<(PathBuf, String)>,
    /// Its lock keeps other runs from the folders.
    entry: CacheFolder,
}

impl Root {
    /// Makes it; or, if `again`, takes the one that an earlier run has left. An earlier run's builds stay, unless `fresh`.
    pub fn prepare(fresh: bool, again: bool) -> Result<Self> {
        let is_root = fs::metadata("/proc/self")
            .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        ensure!(
            is_root,
            "a root for one user is made with mount(8) and chroot(8), which want root's rights"
        );
        let entry = CacheFolder::open(&format!("newcomer-{RELEASE}"))?;
        entry.complete(debian)?;
        let cache = cache::root()?;
        let (folder, target) = (cache.join("newcomer-root"), cache.join("newcomer-target"));
        if fresh {
            remove(&target)?;
        }
        let home = |name: &str, other: &str| {
            let own = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            env::var_os(name).map_or_else(|| own.join(other), PathBuf::from)
        };
        let cargo = home("CARGO_HOME", ".cargo");
        let mounted = vec![
            (toolchain()?, "/opt/rust".to_owned()),
            (target, format!("{HOME}/hydrozoa/target")),
            (cargo.join("registry"), format!("{HOME}/.cargo/registry")),
            (home("XDG_CACHE_HOME", ".cache").join("pip"), format!("{HOME}/.cache/pip")),
            (PathBuf::from("/etc/ssl"), "/etc/ssl".to_owned()),
        ];
        let root = Self { folder, mounted, entry };
        if !again {
            root.fill(&cargo)?;
        }
        ensure!(root.folder.exists(), "no earlier run has left {}", root.folder.display());
        Ok(root)
    }

    /// The checkout, and the files of this machine, in a copy of Debian.
    fn fill(&self, cargo: &Path) -> Result<()> {
        remove(&self.folder)?;
        succeeds(Command::new("cp").arg("-a").arg(self.entry.folder()).arg(&self.folder))?;
        for (outside, inside) in &self.mounted {
            fs::create_dir_all(outside)?;
            fs::create_dir_all(self.inside(inside))?;
        }
        for file in CONFIGURATION.map(Path::new).into_iter().filter(|file| file.is_file()) {
            copy(file, &self.inside(&file.to_string_lossy()))?;
        }
        let own = cargo.join("config.toml");
        if own.is_file() {
            copy(&own, &self.inside(&format!("{HOME}/.cargo/config.toml")))?;
        }
        checkout(&self.checkout())
    }

    /// A path of the root as this machine has it.
    fn inside(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    fn checkout(&self) -> PathBuf {
        self.inside(HOME).join("hydrozoa")
    }

    /// Writes a file in the checkout.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.checkout().join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Runs a line of a shell in the checkout.
    pub fn run(&self, line: &str) -> Result<()> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"]);
        command.arg(&self.folder);
        for (outside, inside) in &self.mounted {
            command.arg(outside).arg(inside);
        }
        let kept = env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            KEPT.iter().any(|kept| name.starts_with(kept))
                || name.to_lowercase().ends_with("_proxy")
        });
        command.env_clear().envs(kept.collect::<Vec<_>>());
        let path =
            format!("{HOME}/.cargo/bin:/opt/rust/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("HOME", HOME).env("LANG", "C.UTF-8").env("PATH", path);
        succeeds(command.arg(line).stdin(Stdio::null()))
    }

    /// Removes it.
    pub fn remove(self) -> Result<()> {
        remove(&self.folder)
    }
}

/// Has debootstrap make Debian's smallest system with [`PACKAGES`].
fn debian(folder: &Path) -> Result<()> {
    tools::install(&TOOLS)?;
    println!("making a Debian in {} (600 MB)", folder.display());
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={PACKAGES}"), RELEASE]);
    succeeds(command.arg(folder).stdout(Stdio::null()))
}

/// The toolchain that runs this program.
fn toolchain() -> Result<PathBuf> {
    let output =
        Command::new("rustc").args(["--print", "sysroot"]).output().context("starting rustc")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Puts the tracked files, with their uncommitted changes, into a folder.
fn checkout(folder: &Path) -> Result<()> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(workspace::root()).output();
        let output = output.context("starting git")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    // A commit of the changes, on no branch; empty without changes.
    let changes = git(&["stash", "create"])?;
    let commit = if changes.is_empty() { "HEAD" } else { &changes };
    let archive = folder.with_extension("tar");
    let output = format!("--output={}", archive.display());
    git(&["archive", &output, commit])?;
    succeeds(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder))?;
    fs::remove_file(&archive).with_context(|| format!("removing {}", archive.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().context("a file is in a folder")?;
    fs::create_dir_all(parent)?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn succeeds(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("starting {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{:?} ended with {status}", command.get_program());
    }
    Ok(())
}

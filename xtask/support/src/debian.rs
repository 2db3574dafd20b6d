//! Debian systems in folders, and lines of a shell that run in them as on a machine of their own.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tools::{self, succeeds};

/// The home of those who run lines there.
pub const HOME: &str = "/root";

/// The tool that makes a system.
pub const TOOLS: [(&str, &str); 1] = [("debootstrap", "debootstrap")];

/// Variables of this machine with which cargo and pip reach their registries.
const KEPT: [&str; 6] =
    ["PIP_", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "SSL_CERT_", "REQUESTS_CA_"];

/// Files of this machine with which they do, where they are there.
const CONFIGURATION: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"];

/// Mounts the rest of the root, for this process and those that it starts, and runs the last argument there. The pairs before it
/// are folders of this machine and their places. The second argument is the format of programs that a program of the root runs, or empty.
const ENTER: &str = r#"
set -e
root=$1; format=$2; shift 2
while [ $# -gt 1 ]; do mount --bind "$1" "$root$2"; shift 2; done
for own in /opt/rust /opt/files; do
    if mountpoint -q "$root$own"; then mount -o remount,bind,ro "$root$own"; fi
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
if [ -n "$format" ]; then
    mount -t binfmt_misc binfmt_misc "$root/proc/sys/fs/binfmt_misc"
    printf %s "$format" >"$root/proc/sys/fs/binfmt_misc/register"
fi
exec chroot "$root" bash -c "$1"
"#;

/// In these the list of formats is its own (Documentation/admin-guide/binfmt-misc.rst of the kernel), and root is this user.
const OWN_USERS: [&str; 2] = ["--user", "--map-root-user"];

/// Checks that this user may make systems and enter them.
///
/// # Errors
///
/// It is not root, or a root without these rights, as in most containers.
pub fn is_possible() -> Result<()> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    ensure!(
        is_root,
        "an empty Debian is made with mount(8) and chroot(8), which want root's rights"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    let output = unshare.arg("mount -t proc proc /proc && chroot / true").output();
    let output = output.context("starting unshare")?;
    ensure!(
        output.status.success(),
        "this root may not mount or change its root: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Checks that systems on this machine may run programs of other machines, by a list of formats that no other process sees.
///
/// # Errors
///
/// The kernel has no such lists, or does not let this user have one.
pub fn can_emulate() -> Result<()> {
    let mut unshare = Command::new("unshare");
    unshare.args(OWN_USERS).args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    let output = unshare
        .arg("mount -t proc proc /proc && mount -t binfmt_misc none /proc/sys/fs/binfmt_misc");
    let output = output.output().context("starting unshare")?;
    ensure!(
        output.status.success(),
        "programs of another machine run by binfmt_misc in a namespace of users, which Linux has since 6.7: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Has debootstrap make the smallest system of a release, with packages beside.
///
/// # Errors
///
/// debootstrap is not there and cannot be installed, or fails.
pub fn make(folder: &Path, release: &str, packages: &str) -> Result<()> {
    tools::install(&TOOLS)?;
    println!("making a Debian {release} in {} (600 MB)", folder.display());
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={packages}"), release]);
    succeeds(command.arg(folder).stdout(Stdio::null()))
}

/// A copy of a system, that one user has.
pub struct Root {
    folder: PathBuf,
    /// Folders of this machine, and their places. Those at `/opt/rust` and `/opt/files` are read-only.
    mounted: Vec<(PathBuf, String)>,
    /// As in [`Root::emulating`], or empty.
    format: &'static str,
}

impl Root {
    /// Has the system in a folder, as it is there.
    pub fn new(folder: PathBuf, mounted: Vec<(PathBuf, String)>) -> Self {
        Self { folder, mounted, format: "" }
    }

    /// Has programs of a format run by a program of the root: a line as binfmt_misc takes it.
    pub fn emulating(self, format: &'static str) -> Self {
        Self { format, ..self }
    }

    /// Makes it a copy of the system in another folder, with what this machine needs to reach registries.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written.
    pub fn fill(&self, system: &Path) -> Result<()> {
        remove(&self.folder)?;
        succeeds(Command::new("cp").arg("-a").arg(system).arg(&self.folder))?;
        self.connect()
    }

    /// Gives it what this machine needs to reach registries, and places for the folders of this machine.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written.
    pub fn connect(&self) -> Result<()> {
        for (outside, inside) in &self.mounted {
            fs::create_dir_all(outside)?;
            fs::create_dir_all(self.inside(inside))?;
        }
        for file in CONFIGURATION.map(Path::new).into_iter().filter(|file| file.is_file()) {
            copy(file, &self.inside(&file.to_string_lossy()))?;
        }
        Ok(())
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path of the root as this machine has it.
    pub fn inside(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// Runs a line of a shell, with root's home and these folders of programs.
    ///
    /// # Errors
    ///
    /// The line fails.
    pub fn run(&self, path: &str, line: &str) -> Result<()> {
        succeeds(&mut self.command(path, line))
    }

    /// The command that runs such a line.
    pub fn command(&self, path: &str, line: &str) -> Command {
        let mut command = Command::new("unshare");
        if !self.format.is_empty() {
            command.args(OWN_USERS);
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"]);
        command.arg(&self.folder).arg(self.format);
        for (outside, inside) in &self.mounted {
            command.arg(outside).arg(inside);
        }
        let kept = env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            // A folder of this machine is not there.
            let is_kept =
                KEPT.iter().any(|kept| name.starts_with(kept)) && name != "PIP_FIND_LINKS";
            is_kept || name.to_lowercase().ends_with("_proxy")
        });
        command.env_clear().envs(kept.collect::<Vec<_>>());
        command.env("HOME", HOME).env("LANG", "C.UTF-8").env("PATH", path);
        command.arg(line).stdin(Stdio::null());
        command
    }

    /// Removes it.
    ///
    /// # Errors
    ///
    /// A file of it cannot be removed.
    pub fn remove(self) -> Result<()> {
        remove(&self.folder)
    }
}

/// Copies a file into a folder that is made.
///
/// # Errors
///
/// It cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().context("a file is in a folder")?;
    fs::create_dir_all(parent)?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}

/// Removes a folder, if it is there.
///
/// # Errors
///
/// A file of it cannot be removed.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

//! A control group with a limit of memory, of either version.
//!
//! Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the kernel have the files that are used here.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// A group. It is removed when it is dropped; its processes must have ended.
pub struct Group {
    folder: PathBuf,
    is_v2: bool,
}

/// The memory of a group's processes, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Footprint {
    /// Anonymous pages.
    pub anonymous: u64,
    /// Page cache: pages of files that processes of this group have read first.
    pub files: u64,
}

impl Group {
    /// A new group, with a limit in bytes. Without one it only counts.
    ///
    /// # Errors
    ///
    /// The machine has no control groups for memory, or this user may make none.
    pub fn new(limit: Option<u64>) -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("hydrozoa-{}-{number}", std::process::id());
        let (parent, is_v2) = parent()?;
        let group = Self { folder: parent.join(name), is_v2 };
        fs::create_dir(&group.folder).with_context(|| {
            format!(
                "creating the control group {}: run this as root, or in a container with writable control groups",
                group.folder.display()
            )
        })?;
        if let Some(bytes) = limit {
            group.limit(bytes)?;
        }
        Ok(group)
    }

    fn limit(&self, bytes: u64) -> Result<()> {
        let bytes = bytes.to_string();
        if self.is_v2 {
            self.write("memory.max", &bytes)?;
            self.write_if_there("memory.swap.max", "0")
        } else {
            self.write("memory.limit_in_bytes", &bytes)?;
            self.write_if_there("memory.memsw.limit_in_bytes", &bytes)
        }
    }

    /// A command like this one, whose process begins in the group.
    pub fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.folder.join("cgroup.procs"));
        inside.arg(command.get_program()).args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// The memory of its processes.
    ///
    /// # Errors
    ///
    /// The group's files cannot be read.
    pub fn footprint(&self) -> Result<Footprint> {
        let text = self.read("memory.stat")?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|number| number.parse().ok()).with_context(|| {
                format!("{}: no {name}", self.folder.join("memory.stat").display())
            })
        };
        let [anonymous, files] = if self.is_v2 { ["anon", "file"] } else { ["rss", "cache"] };
        Ok(Footprint { anonymous: value(anonymous)?, files: value(files)? })
    }

    /// Takes all of the group's pages that can be reread from files, as the kernel does in time with those that nobody uses
    /// while others need memory. False if this kernel cannot be asked for it (`memory.reclaim`, Linux 5.19).
    ///
    /// # Errors
    ///
    /// The group's files cannot be read or written.
    pub fn reclaim(&self) -> Result<bool> {
        let (name, amount) = if self.is_v2 {
            ("memory.reclaim", self.read("memory.current")?)
        } else {
            ("memory.force_empty", "0".to_owned())
        };
        if !self.folder.join(name).exists() {
            return Ok(false);
        }
        let path = self.folder.join(name);
        match fs::write(&path, amount.trim()) {
            // Anonymous pages have no place to go, so that version 2 says that it could not take all.
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                Err(error).with_context(|| format!("writing to {}", path.display()))
            }
            _ => Ok(true),
        }
    }

    /// How many processes the kernel has killed for want of memory.
    ///
    /// # Errors
    ///
    /// The group's file cannot be read.
    pub fn kills(&self) -> Result<u64> {
        let text = self.read(if self.is_v2 { "memory.events" } else { "memory.oom_control" })?;
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|number| number.trim().parse().ok()).context("the kernel counts no kills")
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }

    /// Kernels without accounting of swap do not have the file.
    fn write_if_there(&self, name: &str, text: &str) -> Result<()> {
        if self.folder.join(name).exists() { self.write(name, text) } else { Ok(()) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            // The last processes are still being taken apart.
            thread::sleep(Duration::from_millis(50));
        }
        eprintln!("the control group {} remains: processes are in it", self.folder.display());
    }
}

/// The group in which groups can be made, and whether it is of version 2.
fn parent() -> Result<(PathBuf, bool)> {
    let v1 = Path::new(ROOT).join("memory");
    if v1.is_dir() {
        return Ok((v1, false));
    }
    let controllers = Path::new(ROOT).join("cgroup.subtree_control");
    match fs::read_to_string(&controllers) {
        Ok(text) if text.split_whitespace().any(|word| word == "memory") => {
            Ok((PathBuf::from(ROOT), true))
        }
        Ok(_) => {
            fs::write(&controllers, "+memory")
                .with_context(|| format!("writing +memory to {}", controllers.display()))?;
            Ok((PathBuf::from(ROOT), true))
        }
        Err(error) => bail!(
            "this machine has no control groups for memory: {}: {error}",
            controllers.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_files_of_both_versions() {
        let folder = std::env::temp_dir().join(format!("hydrozoa-group-{}", std::process::id()));
        for (is_v2, stat, kills) in [
            (
                false,
                "cache 8192\nrss 4096\nrss_huge 1\ntotal_rss 9\n",
                ("memory.oom_control", "under_oom 0\noom_kill 3\n"),
            ),
            (
                true,
                "anon 4096\nfile 8192\nfile_mapped 1\n",
                ("memory.events", "oom 1\noom_kill 3\n"),
            ),
        ] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.stat"), stat).unwrap();
            fs::write(folder.join(kills.0), kills.1).unwrap();
            let group = Group { folder: folder.clone(), is_v2 };
            let found = group.footprint().unwrap();
            assert_eq!((found.anonymous, found.files, group.kills().unwrap()), (4096, 8192, 3));
            fs::remove_dir_all(&folder).unwrap();
            // A missing group gives an error, not a figure.
            assert!(group.footprint().is_err());
        }
    }

    #[test]
    fn a_command_keeps_its_arguments_and_its_environment() {
        let folder = std::env::temp_dir().join(format!("hydrozoa-procs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let group = Group { folder: folder.clone(), is_v2: true };
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo \"$1 $WORD $(pwd)\"", "name", "a b"])
            .current_dir("/")
            .env("WORD", "x")
            .env_remove("HOME");
        let output = group.command(&command).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a b x /\n");
        let process = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
        assert!(process.trim().parse::<u32>().unwrap() > 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}

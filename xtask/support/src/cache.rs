//! The folder outside the checkout for downloaded and generated files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// `$XDG_CACHE_HOME/hydrozoa`, or `~/.cache/hydrozoa` (XDG base directory specification).
pub fn root() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
        Some(path) if path.is_absolute() => path,
        _ => PathBuf::from(
            std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?,
        )
        .join(".cache"),
    };
    Ok(base.join("hydrozoa"))
}

/// A folder that is either complete or made again: its stamp file is written last.
pub struct CacheFolder {
    folder: PathBuf,
    /// A lock that is held while a task fills the entry, so that two tasks do not fill it at the same time.
    lock: File,
}

impl CacheFolder {
    /// The cache entry of that name; waits while another task fills it.
    pub fn open(name: &str) -> Result<Self> {
        let root = root()?;
        fs::create_dir_all(&root).with_context(|| format!("creating {}", root.display()))?;
        let path = root.join(format!("{name}.lock"));
        let lock = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        if lock.try_lock().is_err() {
            eprintln!("waiting: another task is using {name}");
            lock.lock().with_context(|| format!("locking {}", path.display()))?;
        }
        Ok(Self { folder: root.join(name), lock })
    }

    /// The entry's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join(".hydrozoa-complete")
    }

    /// Whether an earlier run completed it.
    pub fn is_complete(&self) -> bool {
        self.stamp().exists()
    }

    /// Removes the entries whose names begin with `kind`, except this one.
    pub fn remove_others(kind: &str, kept: &str) -> Result<()> {
        let root = root()?;
        fs::create_dir_all(&root).with_context(|| format!("creating {}", root.display()))?;
        for entry in fs::read_dir(&root).with_context(|| format!("reading {}", root.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != kept && name.starts_with(&format!("{kind}-")) {
                let other = Self::open(&name)?;
                fs::remove_dir_all(&other.folder)
                    .with_context(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Runs `fill` on an empty folder unless an earlier run completed it.
    pub fn complete(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        if self.is_complete() {
            return Ok(());
        }
        if self.folder.exists() {
            eprintln!(
                "{} is incomplete (an earlier run was interrupted): making it again",
                self.folder.display()
            );
            fs::remove_dir_all(&self.folder)
                .with_context(|| format!("removing {}", self.folder.display()))?;
        }
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("creating {}", self.folder.display()))?;
        fill(&self.folder)?;
        fs::write(self.stamp(), "").with_context(|| format!("writing {}", self.stamp().display()))
    }
}

impl Drop for CacheFolder {
    fn drop(&mut self) {
        // An error here does not matter: the file closes next, and closing it unlocks it.
        let _ = self.lock.unlock();
    }
}

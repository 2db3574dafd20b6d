//! The search for a needed library, in the order of ld.so(8).

use super::cache::Cache;
use super::elf::{Dynamic, is_library};
use std::path::{Path, PathBuf};

/// The directories that ld.so tries last. Debian's are those with the name of the machine.
const DEFAULTS: [&str; 6] = [
    if cfg!(target_arch = "aarch64") { "/lib/aarch64-linux-gnu" } else { "/lib/x86_64-linux-gnu" },
    if cfg!(target_arch = "aarch64") {
        "/usr/lib/aarch64-linux-gnu"
    } else {
        "/usr/lib/x86_64-linux-gnu"
    },
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Finds libraries as ld.so does on this machine. `LD_LIBRARY_PATH` has no say: a sealed file must not depend on it.
#[derive(Debug)]
pub(super) struct Search {
    cache: Cache,
}

impl Search {
    pub(super) fn new() -> Self {
        Self { cache: Cache::of_machine() }
    }

    /// The file for `needed`, which the library at `path` asks for. `inherited` are the directories of DT_RPATH of the libraries
    /// that have asked for this one.
    pub(super) fn find(
        &self,
        needed: &str,
        path: &Path,
        dynamic: &Dynamic,
        inherited: &[PathBuf],
    ) -> Option<PathBuf> {
        if needed.contains('/') {
            return usable(expand(needed, path));
        }
        let mut directories = Vec::new();
        if dynamic.runpath.is_empty() {
            directories.extend(own_rpath(path, dynamic));
            directories.extend_from_slice(inherited);
        }
        directories.extend(dynamic.runpath.iter().map(|directory| expand(directory, path)));
        let near = directories.iter().find_map(|directory| usable(directory.join(needed)));
        let cached = || usable(self.cache.get(needed)?.to_owned());
        let default = || DEFAULTS.iter().find_map(|one| usable(Path::new(one).join(needed)));
        near.or_else(cached).or_else(default)
    }
}

/// The directories of its DT_RPATH, which count only if it has no DT_RUNPATH.
pub(super) fn own_rpath(path: &Path, dynamic: &Dynamic) -> Vec<PathBuf> {
    match dynamic.runpath.is_empty() {
        true => dynamic.rpath.iter().map(|directory| expand(directory, path)).collect(),
        false => Vec::new(),
    }
}

/// Puts the directory of the library in place of `$ORIGIN`.
fn expand(text: &str, path: &Path) -> PathBuf {
    let origin = path.parent().unwrap_or(Path::new("/")).to_string_lossy();
    PathBuf::from(text.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
}

/// The path, if it leads to a library for this machine. ld.so passes over others.
fn usable(path: PathBuf) -> Option<PathBuf> {
    is_library(&path).unwrap_or(false).then_some(path)
}

//! The libraries of the machine that a sealed file must carry, because a collected library needs them.

use super::elf::Dynamic;
use super::search::{Search, own_rpath};
use crate::collect::error::CollectError;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// glibc's own libraries, without the number behind `.so`. They must be those of the machine's ld.so.
const GLIBC: [&str; 12] = [
    "libc",
    "libm",
    "libmvec",
    "libdl",
    "libpthread",
    "librt",
    "libutil",
    "libresolv",
    "libanl",
    "libthread_db",
    "libBrokenLocale",
    "libc_malloc_debug",
];

/// The compiler's. The application itself needs the machine's, so a second one is carried on wish only.
const COMPILER: [&str; 2] = ["libgcc_s.so.1", "libstdc++.so.6"];

/// Libraries of a graphics driver, which must be that of the machine's kernel.
const DRIVER: [&str; 3] = ["libcuda.so.", "libnvidia-", "libcudadebugger.so."];

/// The findings about all libraries.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    /// Libraries of the machine to carry, by the names under which they are needed.
    pub(crate) carried: BTreeMap<String, PathBuf>,
    /// Needed names that are nowhere, each with the libraries that need it.
    pub(crate) missing: BTreeMap<String, Vec<String>>,
    /// Needed names that stay out, each with the libraries that need it.
    pub(crate) left_out: BTreeMap<String, Vec<String>>,
    /// Names for which this machine has several files: the one that is carried comes first.
    pub(crate) ambiguous: BTreeMap<String, [PathBuf; 2]>,
    /// The oldest glibc that all libraries work with: the numbers of its version.
    pub(crate) glibc: Option<(u32, u32)>,
}

/// A library whose needs are to be found.
struct Pending {
    label: String,
    path: PathBuf,
    /// Directories of DT_RPATH of those that need it.
    inherited: Vec<PathBuf>,
    /// Whether Python cannot start without it.
    is_vital: bool,
}

/// Finds what the libraries of a file need, and what that needs in turn. `python` is libpython; `members` are the collected
/// libraries with their paths in the sealed file, libpython among them. `is_left_out` says whether a library with this name and
/// this path on the machine stays out.
pub(crate) fn close<'a>(
    python: &Path,
    members: impl Iterator<Item = (&'a str, &'a Path)>,
    carries_cxx: bool,
    is_left_out: &dyn Fn(&str, &Path) -> bool,
) -> Result<Closure, CollectError> {
    let mut pending = VecDeque::new();
    let (mut files, mut names) = (HashMap::new(), HashSet::new());
    for (label, path) in members {
        names.insert(label.rsplit('/').next().unwrap_or(label).to_owned());
        files.insert(real(path), label.to_owned());
        let pending_one = Pending {
            label: label.to_owned(),
            path: path.to_owned(),
            inherited: Vec::new(),
            is_vital: path == python,
        };
        match pending_one.is_vital {
            true => pending.push_front(pending_one),
            false => pending.push_back(pending_one),
        }
    }
    let mut closure = Closure::default();
    let mut seen = HashSet::new();
    let mut unresolved = Vec::new();
    let search = Search::new();
    while let Some(library) = pending.pop_front() {
        if !seen.insert(real(&library.path)) {
            continue;
        }
        let dynamic = Dynamic::read(&library.path)?;
        closure.glibc = closure.glibc.max(dynamic.glibc);
        names.extend(dynamic.soname.clone());
        let mut inherited = own_rpath(&library.path, &dynamic);
        inherited.extend_from_slice(&library.inherited);
        for needed in &dynamic.needed {
            if is_of_machine(needed, carries_cxx) {
                continue;
            }
            let Some(found) = search.find(needed, &library.path, &dynamic, &library.inherited)
            else {
                unresolved.push((needed.clone(), library.label.clone(), library.is_vital));
                continue;
            };
            if files.contains_key(&real(&found)) {
                continue;
            }
            let name = needed.rsplit('/').next().unwrap_or(needed).to_owned();
            if is_left_out(&name, &real(&found)) {
                closure.left_out.entry(name).or_default().push(library.label.clone());
                continue;
            }
            if let Some(first) = closure.carried.get(&name) {
                if real(first) != real(&found) {
                    closure.ambiguous.insert(name, [first.clone(), found]);
                }
                continue;
            }
            pending.push_back(Pending {
                label: format!("lib/{name}"),
                path: found.clone(),
                inherited: inherited.clone(),
                is_vital: library.is_vital,
            });
            closure.carried.insert(name, found);
        }
    }
    for (needed, label, is_vital) in unresolved {
        // Another library of the file may have been loaded before by then, as packages arrange it for CUDA's.
        if names.contains(&needed) || closure.carried.contains_key(&needed) {
            continue;
        }
        if is_vital {
            return Err(CollectError::Missing { path: PathBuf::from(label), needed });
        }
        closure.missing.entry(needed).or_default().push(label);
    }
    Ok(closure)
}

/// Whether the machine that runs the application must have the library.
fn is_of_machine(needed: &str, carries_cxx: bool) -> bool {
    let stem = needed.split(".so").next().unwrap_or(needed);
    // Since glibc 2.32 only libnsl.so.1 is glibc's; later numbers are another project's.
    let is_loader = stem.starts_with("ld-linux") || stem.starts_with("libnss_");
    let is_glibc = GLIBC.contains(&stem) || needed == "libnsl.so.1" || is_loader;
    let is_driver = DRIVER.iter().any(|prefix| needed.starts_with(prefix));
    is_glibc || is_driver || COMPILER.contains(&needed) && !carries_cxx
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A library with the name, linked with `arguments`.
    fn library(path: &Path, arguments: &[&str]) {
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-x", "none", "-o"])
            .arg(path);
        command.arg(format!("-Wl,-soname,{}", path.file_name().unwrap().to_str().unwrap()));
        assert!(command.arg("-Wl,--no-as-needed").args(arguments).status().unwrap().success());
    }

    #[test]
    fn needed_libraries_of_the_machine_are_carried_and_those_of_the_file_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let outside = root.join("outside");
        std::fs::create_dir_all(root.join("in/x.libs")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        library(&outside.join("libdeep.so.1"), &[]);
        library(&outside.join("libfar.so.1"), &[&at("outside/libdeep.so.1")]);
        library(&root.join("in/x.libs/libnear.so.1"), &[]);
        library(&root.join("libgone.so.1"), &[]);
        let rpath = format!("-Wl,--disable-new-dtags,-rpath,$ORIGIN/x.libs:{}", outside.display());
        let needed =
            [at("in/x.libs/libnear.so.1"), at("outside/libfar.so.1"), at("libgone.so.1"), rpath];
        library(&root.join("in/ext.so"), &needed.each_ref().map(String::as_str));

        let [ext, near] = ["in/ext.so", "in/x.libs/libnear.so.1"].map(|name| root.join(name));
        let members = [("p/ext.so", ext.as_path()), ("p/x.libs/libnear.so.1", near.as_path())];
        let closure = close(&near, members.into_iter(), false, &|_, _| false).unwrap();
        // The second one is found by DT_RPATH of the library that needs the first one.
        let carried: Vec<_> = closure.carried.keys().collect();
        assert_eq!(carried, ["libdeep.so.1", "libfar.so.1"]);
        assert_eq!(closure.missing["libgone.so.1"], ["p/ext.so"]);

        let is_left_out = |name: &str, _: &Path| name == "libfar.so.1";
        let closure = close(&near, members.into_iter(), false, &is_left_out).unwrap();
        assert!(closure.carried.is_empty());
        assert_eq!(closure.left_out["libfar.so.1"], ["p/ext.so"]);

        let error = close(&ext, members.into_iter(), false, &|_, _| false).unwrap_err().to_string();
        assert_eq!(
            error,
            "p/ext.so needs libgone.so.1, which is not on this machine; install it, so that this Python runs"
        );
    }

    #[test]
    fn glibc_drivers_and_on_wish_the_compiler_are_of_the_machine() {
        for name in
            ["libc.so.6", "ld-linux-x86-64.so.2", "libnsl.so.1", "libcuda.so.1", "libgcc_s.so.1"]
        {
            assert!(is_of_machine(name, false), "{name}");
        }
        for name in
            ["libcrypt.so.1", "libnsl.so.3", "libcudart.so.12", "libcrypto.so.3", "libmagic.so.1"]
        {
            assert!(!is_of_machine(name, false), "{name}");
        }
        assert!(!is_of_machine("libstdc++.so.6", true));
    }
}

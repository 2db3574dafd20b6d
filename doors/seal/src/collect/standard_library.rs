//! The standard library and libpython of an installation.

use super::error::CollectError;
use super::native::elf::Dynamic;
use super::patterns::{LEFT_OUT, Patterns};
use super::tree::Tree;
use super::walk;
use super::wishes::Wishes;
use crate::member::Kind;
use hydrozoa::python::Installation;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories in it that belong to others.
const OF_PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// Python's own library in the sealed file.
#[derive(Clone, Debug)]
pub(crate) struct LibPython {
    /// Below the root.
    pub(crate) path: String,
    pub(crate) file: PathBuf,
}

/// The directory of the standard library in the sealed file.
pub(super) fn directory(minor: u8) -> String {
    format!("lib/python3.{minor}")
}

/// Takes libpython along.
pub(super) fn add_library(
    tree: &mut Tree,
    installation: &Installation,
) -> Result<LibPython, CollectError> {
    let library = installation.library();
    let file = fs::canonicalize(library).map_err(CollectError::read(library))?;
    let name = match Dynamic::read(&file)?.soname {
        Some(soname) => soname,
        None => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let path = format!("lib/{name}");
    tree.add_as(Kind::Library, path.clone(), file.clone())?;
    Ok(LibPython { path, file })
}

/// Takes the standard library along, but for the parts that stay out. Returns these.
pub(super) fn add(
    tree: &mut Tree,
    installation: &Installation,
    wishes: &Wishes,
) -> Result<Vec<String>, CollectError> {
    let prefix = directory(installation.minor());
    let source = installation.prefix().join(&prefix);
    add_directory(tree, &source, &prefix, wishes)
}

fn add_directory(
    tree: &mut Tree,
    source: &Path,
    prefix: &str,
    wishes: &Wishes,
) -> Result<Vec<String>, CollectError> {
    let defaults = Patterns::new(LEFT_OUT);
    let mut left_out = Vec::new();
    let found = walk::files(source, &mut |name| {
        if OF_PACKAGES.contains(&name) {
            return true;
        }
        let by_default = defaults.cover(name) && !wishes.keep.cover(name);
        let leaves_out = by_default || wishes.leave_out(prefix, name);
        if leaves_out {
            left_out.push(format!("{prefix}/{name}"));
        }
        leaves_out
    })?;
    for file in found {
        tree.add(format!("{prefix}/{}", file.name), file.path)?;
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(wishes: &Wishes) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "os.py",
            "test/support/a.py",
            "unittest/test/a.py",
            "ctypes/a.py",
            "site-packages/pip/a.py",
            "config-3.12-x86_64-linux-gnu/Makefile",
            "__pycache__/os.cpython-312.pyc",
            "lib-dynload/_testcapi.cpython-312-x86_64-linux-gnu.so",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut tree = Tree::default();
        let mut left_out = add_directory(&mut tree, folder.path(), "lib", wishes).unwrap();
        left_out.sort();
        (tree.paths().map(str::to_owned).collect(), left_out)
    }

    #[test]
    fn tests_and_what_links_against_python_stay_out_by_default_and_are_named() {
        let (taken, left_out) = collected(&Wishes::default());
        assert_eq!(taken, ["lib/ctypes/a.py", "lib/os.py"]);
        let expected = [
            "lib/config-3.12-x86_64-linux-gnu",
            "lib/lib-dynload/_testcapi.cpython-312-x86_64-linux-gnu.so",
            "lib/test",
            "lib/unittest/test",
        ];
        assert_eq!(left_out, expected);
    }

    #[test]
    fn wishes_keep_parts_and_leave_out_others() {
        let keep = Patterns::new(["test", "*/test"]);
        let without = Patterns::new(["ctypes"]);
        let (taken, left_out) = collected(&Wishes { keep, without, ..Wishes::default() });
        assert_eq!(taken, ["lib/os.py", "lib/test/support/a.py", "lib/unittest/test/a.py"]);
        assert!(left_out.contains(&"lib/ctypes".to_owned()), "{left_out:?}");
    }
}

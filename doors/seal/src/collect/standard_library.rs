//! The standard library and libpython of an installation.

use super::error::CollectError;
use super::native::elf::Dynamic;
use super::patterns::{LEFT_OUT, Patterns};
use super::tree::Tree;
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

/// Whether it is a directory in that of the standard library that belongs to packages.
pub(super) fn is_of_packages(path: &str, minor: u8) -> bool {
    path.strip_prefix(&directory(minor))
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|name| OF_PACKAGES.contains(&name))
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

/// Takes the standard library along, but for the parts that stay out.
pub(super) fn add(
    tree: &mut Tree,
    installation: &Installation,
    wishes: &Wishes,
) -> Result<(), CollectError> {
    let prefix = directory(installation.minor());
    let source = installation.prefix().join(&prefix);
    add_directory(tree, &source, &prefix, wishes)
}

fn add_directory(
    tree: &mut Tree,
    source: &Path,
    prefix: &str,
    wishes: &Wishes,
) -> Result<(), CollectError> {
    let defaults = Patterns::new(LEFT_OUT);
    tree.take(source, prefix, &|name| {
        let by_default = defaults.cover(name) && !wishes.keep.cover(name);
        OF_PACKAGES.contains(&name) || by_default || wishes.leave_out(prefix, name)
    })
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
        add_directory(&mut tree, folder.path(), "lib", wishes).unwrap();
        let left_out = tree.left_out().map(|(path, _)| path.to_owned()).collect();
        (tree.paths().map(str::to_owned).collect(), left_out)
    }

    #[test]
    fn tests_and_what_links_against_python_stay_out_by_default_and_are_named() {
        let (taken, left_out) = collected(&Wishes::default());
        assert_eq!(taken, ["lib/ctypes/a.py", "lib/os.py"]);
        let expected = [
            "lib/config-3.12-x86_64-linux-gnu",
            "lib/lib-dynload/_testcapi.cpython-312-x86_64-linux-gnu.so",
            "lib/site-packages",
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

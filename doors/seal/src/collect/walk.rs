//! The files below a directory, in one order on every machine.

use super::error::CollectError;
use super::patterns::is_never_taken;
use std::fs;
use std::path::{Path, PathBuf};

/// A file that a walk has found.
pub(super) struct Found {
    /// Below the directory, with slashes.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The regular files below `directory` that `leaves_out` lets in, sorted by their names. Links count as the files and directories
/// that they lead to. A link to a directory above itself, and one that leads nowhere, count as nothing.
///
/// `leaves_out` is asked for directories too, and then hides everything below.
pub(super) fn files(
    directory: &Path,
    leaves_out: &mut dyn FnMut(&str) -> bool,
) -> Result<Vec<Found>, CollectError> {
    let mut found = Vec::new();
    let root = fs::canonicalize(directory).map_err(CollectError::read(directory))?;
    descend(directory, "", &mut vec![root], leaves_out, &mut found)?;
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn descend(
    directory: &Path,
    prefix: &str,
    above: &mut Vec<PathBuf>,
    leaves_out: &mut dyn FnMut(&str) -> bool,
    found: &mut Vec<Found>,
) -> Result<(), CollectError> {
    let entries = fs::read_dir(directory).map_err(CollectError::read(directory))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(CollectError::read(directory))?.path());
    }
    paths.sort();
    for path in paths {
        let last = path.file_name().unwrap_or_default().to_str().ok_or_else(|| {
            CollectError::Name { path: path.clone(), reason: "its name is not UTF-8" }
        })?;
        let name = format!("{prefix}{last}");
        if is_never_taken(last) || leaves_out(&name) {
            continue;
        }
        check(&name, &path)?;
        // A link that leads nowhere.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_file() {
            found.push(Found { name, path });
        } else if metadata.is_dir() {
            let real = fs::canonicalize(&path).map_err(CollectError::read(&path))?;
            if above.contains(&real) {
                continue;
            }
            above.push(real);
            descend(&path, &format!("{name}/"), above, leaves_out, found)?;
            above.pop();
        }
    }
    Ok(())
}

/// The records of a sealed file separate words by tabs, and lines by newlines.
pub(super) fn check(name: &str, path: &Path) -> Result<(), CollectError> {
    match name.contains(['\t', '\n', '\0']) {
        true => Err(CollectError::Name {
            path: path.to_owned(),
            reason: "its name holds a tab or a newline, which separate the records of a sealed file",
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_circles_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("b/c")).unwrap();
        fs::write(root.join("b/c/one.py"), "").unwrap();
        fs::write(root.join("a.txt"), "").unwrap();
        fs::write(root.join("lib.a"), "").unwrap();
        symlink("..", root.join("b/circle")).unwrap();
        symlink("nowhere", root.join("b/broken")).unwrap();
        symlink("b", root.join("d")).unwrap();
        let names = |hidden: &str| {
            let found = files(root, &mut |name| name == hidden).unwrap();
            found.into_iter().map(|file| file.name).collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["a.txt", "b/c/one.py", "d/c/one.py"]);
        assert_eq!(names("b"), ["a.txt", "d/c/one.py"]);
    }

    #[test]
    fn an_unreadable_directory_is_named_with_the_remedy() {
        let error = files(Path::new("/no/such/directory"), &mut |_| false).err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("/no/such/directory: "), "{text}");
        assert!(text.ends_with("let this user read it, or leave it out with --without"), "{text}");
    }

    #[test]
    fn a_name_with_a_tab_is_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a\tb"), "").unwrap();
        let error = files(folder.path(), &mut |_| false).err().unwrap().to_string();
        assert!(error.contains("a\\tb") && error.contains("holds a tab"), "{error}");
    }
}

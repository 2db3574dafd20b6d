//! The `.pth` files of a directory of packages, as the module `site` reads them.

use super::error::CollectError;
use std::fs;
use std::path::{Path, PathBuf};

/// The lines of all `.pth` files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PathFiles {
    /// Directories for `sys.path`, in order.
    pub(super) directories: Vec<PathBuf>,
    /// Lines that begin with `import`, each with its file's name.
    pub(super) lines: Vec<(String, String)>,
    /// Lines that a sealed file cannot follow, with the reason.
    pub(super) notes: Vec<String>,
}

/// Reads the `.pth` files in the order of their names. `skips` says which files do not count.
pub(super) fn read(site: &Path, skips: &dyn Fn(&str) -> bool) -> Result<PathFiles, CollectError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(site).map_err(CollectError::read(site))? {
        let name = entry.map_err(CollectError::read(site))?.file_name();
        let Some(name) = name.to_str() else { continue };
        // Hidden ones do not count (Lib/site.py, addsitedir).
        if name.ends_with(".pth") && !name.starts_with('.') && !skips(name) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    let mut found = PathFiles::default();
    for name in names {
        let path = site.join(&name);
        let content = fs::read(&path).map_err(CollectError::read(&path))?;
        let text = String::from_utf8_lossy(&content);
        for line in text.trim_start_matches('\u{feff}').lines() {
            read_line(site, &name, line, &mut found);
        }
    }
    Ok(found)
}

/// Reads a line as Lib/site.py, addpackage, does.
fn read_line(site: &Path, name: &str, line: &str, found: &mut PathFiles) {
    if line.starts_with('#') || line.trim().is_empty() {
        return;
    }
    if line.starts_with("import ") || line.starts_with("import\t") {
        if line.contains("__editable__") {
            found.notes.push(format!(
                "{name}: this package is installed as editable by a finder of its own, so its files are not in the file; \
                 install it without -e, or with `--config-settings editable_mode=compat`"
            ));
        }
        found.lines.push((name.to_owned(), line.trim_end().to_owned()));
        return;
    }
    let path = site.join(line.trim_end());
    // site passes over what is not there.
    let Ok(real) = fs::canonicalize(&path) else { return };
    if !real.is_dir() {
        found.notes.push(format!(
            "{name}: {} is an archive, and its modules are not in the file; install the package as files",
            path.display()
        ));
    } else if !found.directories.contains(&real) {
        found.directories.push(real);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_site_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let site = fs::canonicalize(folder.path()).unwrap();
        for directory in ["own", "project/src"] {
            fs::create_dir_all(site.join(directory)).unwrap();
        }
        let src = site.join("project/src");
        fs::write(site.join("b.pth"), format!("# x\n{}\nnowhere\n\nown  \n", src.display()))
            .unwrap();
        fs::write(site.join("a.pth"), "import os; os.x = 1\nown\n").unwrap();
        fs::write(site.join(".hidden.pth"), "import hidden\n").unwrap();
        fs::write(site.join("skipped.pth"), "import skipped\n").unwrap();
        fs::write(site.join("c.pth"), "import __editable___p_finder; x()\n").unwrap();
        let found = read(&site, &|name| name == "skipped.pth").unwrap();
        assert_eq!(found.directories, [site.join("own"), src]);
        let lines: Vec<_> = found.lines.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(lines, ["a.pth", "c.pth"]);
        assert!(found.notes[0].starts_with("c.pth: ") && found.notes.len() == 1);
    }
}

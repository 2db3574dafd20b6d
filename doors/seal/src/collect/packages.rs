//! Packages of a virtual environment, or of a directory into which they were installed.

use super::distributions::{self, Installed, normalized};
use super::error::CollectError;
use super::path_files;
use super::tree::Tree;
use super::wishes::Wishes;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Distributions that serve installing. One stays out of a virtual environment's packages unless another requires it.
const INSTALLERS: [&str; 5] = ["pip", "setuptools", "wheel", "uv", "virtualenv"];

/// The files that virtualenv and uv put into each environment, for the sake of installing.
const OF_VIRTUALENV: [&str; 2] = ["_virtualenv.pth", "_virtualenv.py"];

/// The findings about a directory of packages.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// Directories of the sealed file for `sys.path`, in order.
    pub(super) paths: Vec<String>,
    /// Lines of `.pth` files that begin with `import`.
    pub(super) lines: Vec<(String, String)>,
    pub(super) distributions: Vec<Installed>,
    pub(super) notes: Vec<String>,
}

impl Packages {
    /// Adds those of a directory that comes later on the search path.
    pub(super) fn extend(&mut self, later: Packages) {
        self.paths.extend(later.paths);
        self.lines.extend(later.lines);
        self.distributions.extend(later.distributions);
        self.notes.extend(later.notes);
    }
}

/// Takes the packages of the directory `site` along, below `prefix`. `was_installed` says that they were installed for this file,
/// so that it holds no more than what was asked for.
pub(super) fn add(
    tree: &mut Tree,
    site: &Path,
    prefix: &str,
    was_installed: bool,
    wishes: &Wishes,
) -> Result<Packages, CollectError> {
    let installed = distributions::of_directory(site)?;
    let (dropped, distributions) = match was_installed {
        true => (Vec::new(), installed),
        false => split(installed),
    };
    let mut hidden: BTreeSet<&str> = dropped.iter().flat_map(tops).collect();
    for kept in &distributions {
        // Several distributions may share a namespace.
        for top in tops(kept) {
            hidden.remove(top);
        }
    }
    match was_installed {
        // Programs, whose first line names this machine's Python.
        true => drop(hidden.insert("bin")),
        false => hidden.extend(OF_VIRTUALENV),
    }
    let files =
        path_files::read(site, &|name| hidden.contains(name) || wishes.leave_out(prefix, name))?;
    let mut packages = Packages {
        paths: vec![prefix.to_owned()],
        lines: files.lines,
        distributions,
        notes: files.notes,
    };
    tree.take(site, prefix, &|name| hidden.contains(name) || wishes.leave_out(prefix, name))?;
    let real = fs::canonicalize(site).map_err(CollectError::read(site))?;
    for directory in files.directories {
        let path = match directory.strip_prefix(&real) {
            Ok(below) if below.as_os_str().is_empty() => continue,
            Ok(below) => format!("{prefix}/{}", below.display()),
            Err(_) => {
                let path = format!("{prefix}-{}", packages.paths.len() + 1);
                add_project(tree, &directory, &path, wishes)?;
                path
            }
        };
        packages.paths.push(path);
    }
    Ok(packages)
}

/// Takes a directory along that holds the files of somebody's project: but for what is hidden, such as `.git`, and for
/// virtual environments.
pub(super) fn add_project(
    tree: &mut Tree,
    directory: &Path,
    prefix: &str,
    wishes: &Wishes,
) -> Result<(), CollectError> {
    tree.take(directory, prefix, &|name| {
        let is_hidden = name.rsplit('/').next().is_some_and(|last| last.starts_with('.'));
        let is_venv = directory.join(name).join("pyvenv.cfg").exists();
        is_hidden || is_venv || wishes.leave_out(prefix, name)
    })
}

/// Separates the distributions that serve installing only from those that are taken.
fn split(installed: Vec<Installed>) -> (Vec<Installed>, Vec<Installed>) {
    let is_installer = |one: &Installed| INSTALLERS.contains(&normalized(&one.name).as_str());
    let required: BTreeSet<String> = installed
        .iter()
        .filter(|one| !is_installer(one))
        .flat_map(|one| one.requires.iter().cloned())
        .collect();
    installed
        .into_iter()
        .partition(|one| is_installer(one) && !required.contains(&normalized(&one.name)))
}

fn tops(installed: &Installed) -> impl Iterator<Item = &str> {
    installed.tops.iter().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An environment's packages: pip, setuptools, and `app`, which requires what `requires` says.
    fn site(folder: &Path, requires: &str) {
        for (name, headers, files) in [
            ("pip", "", "pip/a.py"),
            ("setuptools", "", "setuptools/a.py,pkg_resources/a.py,distutils-precedence.pth"),
            ("app", requires, "app/a.py"),
        ] {
            let metadata = folder.join(format!("{name}-1.dist-info"));
            fs::create_dir_all(&metadata).unwrap();
            fs::write(metadata.join("METADATA"), format!("Name: {name}\n{headers}")).unwrap();
            fs::write(metadata.join("RECORD"), files.replace(',', ",,\n")).unwrap();
            for file in files.split(',') {
                fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
                fs::write(folder.join(file), "import os\n").unwrap();
            }
        }
    }

    fn collected(folder: &Path) -> (Tree, Packages) {
        let mut tree = Tree::default();
        let prefix = "lib/python3.12/site-packages";
        let packages = add(&mut tree, folder, prefix, false, &Wishes::default()).unwrap();
        (tree, packages)
    }

    #[test]
    fn installers_stay_out_unless_they_are_required() {
        let folder = tempfile::tempdir().unwrap();
        site(folder.path(), "");
        let (tree, packages) = collected(folder.path());
        let taken: Vec<_> = tree.paths().filter(|path| path.ends_with("a.py")).collect();
        assert_eq!(taken, ["lib/python3.12/site-packages/app/a.py"]);
        assert!(tree.left_out().any(|(path, _)| path == "lib/python3.12/site-packages/pip"));
        assert!(packages.lines.is_empty() && packages.distributions.len() == 1);

        site(folder.path(), "Requires-Dist: setuptools>=60\n");
        let (tree, packages) = collected(folder.path());
        assert!(tree.has("lib/python3.12/site-packages/pkg_resources/a.py"));
        assert_eq!(packages.lines[0].0, "distutils-precedence.pth");
    }

    #[test]
    fn directories_of_path_files_are_taken_under_paths_of_their_own() {
        let (folder, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["mine/a.py", ".git/config", "venv/pyvenv.cfg"] {
            fs::create_dir_all(project.path().join(name).parent().unwrap()).unwrap();
            fs::write(project.path().join(name), "").unwrap();
        }
        let line = project.path().display().to_string();
        fs::write(folder.path().join("mine.pth"), line).unwrap();
        let (tree, packages) = collected(folder.path());
        let expected = ["lib/python3.12/site-packages", "lib/python3.12/site-packages-2"];
        assert_eq!(packages.paths, expected);
        let taken: Vec<_> = tree.paths().filter(|path| path.contains("-2/")).collect();
        assert_eq!(taken, ["lib/python3.12/site-packages-2/mine/a.py"]);
    }
}

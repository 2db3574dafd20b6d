//! Where models lie: folders of repositories, and packages that are files of their own.

use crate::config::{CONFIG_FILE, PACKAGE_FILE};
use crate::escaping::{escaped, misleads};
use crate::load::LoadError;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// All places of models.
#[derive(Default)]
pub(crate) struct Catalog {
    repositories: Vec<PathBuf>,
    packages: BTreeMap<String, PackageFile>,
    /// Folders logged because their names cannot be those of models.
    refused: Mutex<BTreeSet<OsString>>,
}

/// The most such folders that are logged.
const REFUSED: usize = 100;

/// A package that is a model by itself.
#[derive(Clone, Debug)]
pub(crate) struct PackageFile {
    pub(crate) path: PathBuf,
    /// How many instances the model has.
    pub(crate) instances: u32,
    /// The GPUs that have so many each; none for the processor.
    pub(crate) gpus: Vec<u32>,
}

/// Where a model lies.
#[derive(Debug)]
pub(crate) enum Home {
    /// Its folder in a repository.
    Folder(PathBuf),
    Package(PackageFile),
}

/// A name is one folder or file, never a way out of the repository, and looks like nothing else.
pub(crate) fn is_name(name: &str) -> bool {
    let is_one = Path::new(name).file_name().is_some_and(|file| file == name);
    is_one && !name.starts_with('.') && !name.contains(misleads)
}

/// # Errors
///
/// [`LoadError::Name`] if it looks like something else.
pub(crate) fn checked(name: &str) -> Result<(), LoadError> {
    match name.contains(misleads) {
        true => Err(LoadError::Name { model: name.to_owned() }),
        false => Ok(()),
    }
}

/// Whether a folder is that of one model, and no repository of models: it has a configuration, or versions with a model.
pub fn is_model_folder(directory: &Path) -> bool {
    let has_version =
        || versions(directory, &["model.py", PACKAGE_FILE]).is_ok_and(|found| !found.is_empty());
    directory.join(CONFIG_FILE).is_file() || has_version()
}

impl Catalog {
    pub(crate) fn add_repository(&mut self, directory: PathBuf) {
        self.repositories.push(directory);
    }

    /// Adds a package, and returns the name of its model: the file's without its ending.
    pub(crate) fn add_package(&mut self, package: PackageFile) -> Result<String, LoadError> {
        let stem = package.path.file_stem().and_then(|stem| stem.to_str());
        let Some(name) = stem.filter(|stem| is_name(stem)) else {
            return Err(LoadError::Unnamed { path: package.path });
        };
        let name = name.to_owned();
        if let Some(other) = self.packages.get(&name) {
            return Err(twice(&name, &other.path, &package.path));
        }
        self.packages.insert(name.clone(), package);
        Ok(name)
    }

    /// The names of all models, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.packages.keys().cloned().collect();
        for repository in &self.repositories {
            let entries = fs::read_dir(repository).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.path().is_dir()) {
                match entry.file_name().into_string() {
                    Ok(name) if name.starts_with('.') => {}
                    Ok(name) if is_name(&name) => names.push(name),
                    Ok(name) => self.refuse(repository, name.into()),
                    Err(name) => self.refuse(repository, name),
                }
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Logs once that a folder cannot be a model.
    fn refuse(&self, repository: &Path, name: OsString) {
        let mut refused = self.refused.lock();
        if refused.len() < REFUSED && refused.insert(name.clone()) {
            // Bytes outside UTF-8 are written as `\xff`.
            let bytes = name.as_encoded_bytes();
            let name = str::from_utf8(bytes)
                .map_or_else(|_| Cow::Owned(bytes.escape_ascii().to_string()), escaped);
            tracing::warn!(
                "the folder `{name}` of {} is no model: a name is UTF-8 without control characters and without characters that hide \
                 others or change their order; give it another name",
                repository.display()
            );
        }
    }

    /// Where a model lies. A repository that was added before others goes before them.
    pub(crate) fn find(&self, name: &str) -> Result<Home, LoadError> {
        let mut folders = self.repositories.iter().map(|repository| repository.join(name));
        let folder = folders.find(|path| is_name(name) && path.is_dir());
        match (self.packages.get(name), folder) {
            (Some(package), Some(folder)) => Err(twice(name, &package.path, &folder)),
            (Some(package), None) => Ok(Home::Package(package.clone())),
            (None, Some(folder)) => Ok(Home::Folder(folder)),
            (None, None) => {
                Err(LoadError::Unknown { model: name.to_owned(), searched: self.searched() })
            }
        }
    }

    fn searched(&self) -> String {
        let packages = self.packages.values().map(|package| &package.path);
        let searched: Vec<_> = self
            .repositories
            .iter()
            .chain(packages)
            .map(|path| path.display().to_string())
            .collect();
        format!("there are {}", searched.join(", "))
    }
}

fn twice(name: &str, one: &Path, other: &Path) -> LoadError {
    let places = [one.to_owned(), other.to_owned()];
    LoadError::Twice { model: name.to_owned(), places }
}

/// A version that a model's folder has, and the file that has the model.
pub(crate) struct Available {
    pub(crate) version: i64,
    pub(crate) file_name: String,
}

/// The versions that a model's folder has: each has the first of these files that is there.
pub(crate) fn versions(directory: &Path, files: &[&str]) -> io::Result<Vec<Available>> {
    let mut versions = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('0')) else { continue };
        let Some(version) = name.parse::<i64>().ok().filter(|version| *version > 0) else {
            continue;
        };
        let folder = directory.join(name);
        let file = files.iter().find(|file| folder.join(file).is_file());
        versions.extend(file.map(|file| Available { version, file_name: (*file).to_owned() }));
    }
    Ok(versions)
}

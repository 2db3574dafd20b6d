//! The origin of a model: its folder in a repository, a package, or files that the load brings along.

use super::catalog::{Home, PackageFile};
use super::load_folders::LoadFolders;
use crate::config::{ConfigDraft, ConfigError, PACKAGE_FILE};
use crate::host::Overrides;
use crate::load::LoadError;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// The prefix of files among a load's parameters.
const FILE: &str = "file:";

/// The origin of a model's versions.
pub(crate) struct Origin {
    /// The model's folder, or that of a package which lies alone.
    pub(crate) directory: PathBuf,
    /// The package, if it lies alone.
    pub(crate) package: Option<PathBuf>,
    pub(crate) draft: ConfigDraft,
    /// The folder that was made for the load's own files. It goes when no version needs it any more.
    pub(crate) made: Option<Arc<TempDir>>,
}

impl Overrides {
    /// Whether the model need not be in a repository.
    pub(crate) fn is_whole(&self) -> bool {
        !self.files.is_empty()
    }

    /// The files' paths, for a log.
    pub fn paths(&self) -> String {
        let paths = self.files.iter().map(|(path, _)| path.strip_prefix(FILE).unwrap_or(path));
        paths.collect::<Vec<_>>().join(", ")
    }

    /// The configuration that the load has.
    fn draft(&self, name: &str) -> Option<Result<ConfigDraft, ConfigError>> {
        let parsed = serde_json::from_str(self.config.as_ref()?);
        let parsed =
            parsed.map_err(|error| ConfigError::Text(format!("the load's `config`: {error}")));
        Some(parsed.and_then(|json| ConfigDraft::of_json(&json, name)))
    }
}

impl Origin {
    /// Finds a model by `find`, unless the load brings its files.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the model is nowhere and the load brings no files, or if a part of it cannot be used.
    pub(crate) fn new(
        folders: &LoadFolders,
        find: impl FnOnce() -> Result<Home, LoadError>,
        name: &str,
        overrides: &Overrides,
    ) -> Result<Self, LoadError> {
        let configured = |source: ConfigError| LoadError::Config { model: name.to_owned(), source };
        // Models are told absolute paths.
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|source| LoadError::Read {
                model: name.to_owned(),
                path: path.to_owned(),
                source,
            })
        };
        let made = match overrides.is_whole() {
            true => Some(Arc::new(write(folders, name, overrides)?)),
            false => None,
        };
        let home = match &made {
            Some(made) => Home::Folder(made.path().join(name)),
            None => find()?,
        };
        let own = overrides.draft(name);
        let (directory, package, draft) = match home {
            Home::Folder(directory) => {
                let directory = absolute(&directory)?;
                let draft = own.unwrap_or_else(|| ConfigDraft::of_folder(&directory));
                (directory, None, draft)
            }
            Home::Package(PackageFile { path, instances, gpus }) => {
                let file = absolute(&path)?;
                let directory = file.parent().unwrap_or(&file).to_owned();
                let draft = own.map_or_else(
                    || ConfigDraft::of_package(name, instances, &gpus),
                    |own| own.map(|draft| draft.with_file(PACKAGE_FILE)),
                );
                (directory, Some(file), draft)
            }
        };
        Ok(Self { directory, package, draft: draft.map_err(configured)?, made })
    }
}

/// Writes a load's files to a folder of their own.
fn write(folders: &LoadFolders, name: &str, overrides: &Overrides) -> Result<TempDir, LoadError> {
    let refused = |problem: String| LoadError::Override { model: name.to_owned(), problem };
    if overrides.config.is_none() {
        return Err(refused("files need a `config` beside them".to_owned()));
    }
    let failed = |file: &str, source| LoadError::File {
        model: name.to_owned(),
        file: file.to_owned(),
        source,
    };
    let made = folders.make().map_err(|source| failed("", source))?;
    let folder = made.path().join(name);
    for (given, data) in &overrides.files {
        let Some(file) = given.strip_prefix(FILE) else {
            return Err(refused(format!(
                "parameter '{given}' is unknown; files have names such as `{FILE}1/model.py`"
            )));
        };
        // Triton's own clients write `file:/1/model.py`, too.
        let file = file.strip_prefix('/').unwrap_or(file);
        let path = Path::new(file);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if file.is_empty() || !is_inside || file.contains('\0') {
            return Err(refused(format!("file `{file}` is not a path within the model's folder")));
        }
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, data))
            .map_err(|source| failed(file, source))?;
    }
    Ok(made)
}

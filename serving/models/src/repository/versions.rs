//! Which versions of a model a load takes.

use super::catalog::versions;
use super::origin::Origin;
use crate::config::ConfigDraft;
use crate::load::LoadError;
use std::path::PathBuf;

/// A version that is to be loaded.
pub(crate) struct Wanted {
    pub(crate) version: i64,
    pub(crate) file: PathBuf,
    pub(crate) draft: ConfigDraft,
}

/// The versions of a model that its configuration asks for.
pub(crate) fn wanted(name: &str, origin: &Origin) -> Result<Vec<Wanted>, LoadError> {
    let Origin { directory, package, draft, .. } = origin;
    if let Some(file) = package {
        return Ok(vec![Wanted { version: 1, file: file.clone(), draft: draft.clone() }]);
    }
    let available = versions(directory, &draft.files()).map_err(|source| LoadError::Read {
        model: name.to_owned(),
        path: directory.clone(),
        source,
    })?;
    let numbers: Vec<_> = available.iter().map(|one| one.version).collect();
    let numbers = draft.version_policy().choose(&numbers);
    if numbers.is_empty() {
        let file_name = draft.files().join(" or ");
        let path = directory.clone();
        return Err(LoadError::NoVersion { model: name.to_owned(), path, file_name });
    }
    let wanted = available.into_iter().filter(|one| numbers.contains(&one.version));
    let mut wanted: Vec<_> = wanted
        .map(|one| Wanted {
            version: one.version,
            file: directory.join(one.version.to_string()).join(&one.file_name),
            draft: draft.with_file(&one.file_name),
        })
        .collect();
    wanted.sort_by_key(|one| one.version);
    Ok(wanted)
}

//! The inputs of the comparison: the shared objects of files, directories and wheels, by origin.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::object;

/// A wheel, an installed package, a directory or a single file.
pub(super) struct Source {
    /// The project's or the directory's name.
    pub name: String,
    /// Its release, if it has one.
    pub version: String,
    /// Its shared objects. Files with the same content occur once (a wheel holds no links).
    pub objects: Vec<PathBuf>,
}

/// The sources that `input` names. Wheels are unpacked into `scratch`.
pub(super) fn sources(input: &Path, scratch: &Path) -> anyhow::Result<Vec<Source>> {
    if input.extension().is_some_and(|end| end == "whl") {
        return Ok(vec![wheel(input, scratch)?]);
    }
    if !input.is_dir() {
        let (name, version) = installed(input).unwrap_or_else(|| (file_name(input), String::new()));
        return Ok(vec![Source { name, version, objects: vec![input.to_owned()] }]);
    }
    let mut wheels: Vec<PathBuf> = std::fs::read_dir(input)
        .with_context(|| input.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    wheels.retain(|path| path.extension().is_some_and(|end| end == "whl"));
    wheels.sort();
    if !wheels.is_empty() {
        return wheels.iter().map(|path| wheel(path, scratch)).collect();
    }
    let (name, version) = installed(input).unwrap_or_else(|| (file_name(input), String::new()));
    Ok(vec![Source { name, version, objects: objects_under(input)? }])
}

/// A wheel's name gives its project and release: `NAME-VERSION-TAGS.whl` (the binary distribution format).
fn wheel(path: &Path, scratch: &Path) -> anyhow::Result<Source> {
    let file = file_name(path);
    let mut parts = file.split('-').map(str::to_owned);
    let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let target = scratch.join(&file);
    let archive = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    zip::ZipArchive::new(archive)?.extract(&target)?;
    Ok(Source { name, version, objects: objects_under(&target)? })
}

/// The installed package that contains `path`, found by the metadata that installers leave beside it.
fn installed(path: &Path) -> Option<(String, String)> {
    let path = path.canonicalize().ok()?;
    path.ancestors().find_map(|package| {
        let name = package.file_name()?.to_str()?;
        std::fs::read_dir(package.parent()?).ok()?.find_map(|entry| {
            let entry = entry.ok()?.file_name().into_string().ok()?;
            let (found, version) = entry.strip_suffix(".dist-info")?.split_once('-')?;
            (found == name).then(|| (found.to_owned(), version.to_owned()))
        })
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn objects_under(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() && name.contains(".so") && !object::is_inert(&name) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    let mut contents = HashSet::new();
    let mut objects = Vec::new();
    for path in found {
        let bytes = std::fs::read(&path)?;
        if object::is_loadable(&bytes) && contents.insert(Sha256::digest(&bytes)) {
            objects.push(path);
        }
    }
    Ok(objects)
}

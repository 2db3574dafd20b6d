//! Distributions of a directory of packages: names, versions, licences and needs, from their metadata.

use super::error::CollectError;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The metadata of an installed distribution (PEP 566, PEP 639).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Installed {
    /// The directory of its metadata, such as `numpy-2.5.0.dist-info`.
    pub(super) directory: String,
    pub(super) name: String,
    pub(super) version: String,
    /// Empty if the metadata say nothing.
    pub(super) license: String,
    /// Normalized names of what it requires unless an extra is asked for.
    pub(super) requires: Vec<String>,
    /// The first parts of the paths of its files, in the directory of packages.
    pub(super) tops: BTreeSet<String>,
}

/// The distributions of the directory, sorted by the names of their metadata.
pub(super) fn of_directory(site: &Path) -> Result<Vec<Installed>, CollectError> {
    let mut all = Vec::new();
    let entries = fs::read_dir(site).map_err(CollectError::read(site))?;
    for entry in entries {
        let path = entry.map_err(CollectError::read(site))?.path();
        let Some(directory) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let metadata = match directory.rsplit_once('.') {
            Some((_, "dist-info")) => path.join("METADATA"),
            Some((_, "egg-info")) if path.is_dir() => path.join("PKG-INFO"),
            Some((_, "egg-info")) => path.clone(),
            _ => continue,
        };
        // Metadata without the file are left from an installation that has failed.
        let Ok(content) = fs::read(&metadata) else { continue };
        let mut installed = parse(&String::from_utf8_lossy(&content));
        installed.directory = directory.to_owned();
        installed.tops = tops(&path);
        installed.tops.insert(directory.to_owned());
        all.push(installed);
    }
    all.sort_by(|one, other| one.directory.cmp(&other.directory));
    Ok(all)
}

/// The name as indexes compare names (PEP 503).
pub(super) fn normalized(name: &str) -> String {
    let mut text = String::new();
    for letter in name.trim().chars() {
        match letter {
            '-' | '_' | '.' if text.ends_with('-') => {}
            '-' | '_' | '.' => text.push('-'),
            letter => text.extend(letter.to_lowercase()),
        }
    }
    text
}

/// Reads the headers of METADATA, which end at an empty line.
fn parse(text: &str) -> Installed {
    let mut installed = Installed::default();
    let (mut expression, mut license, mut classifiers) = (None, None, Vec::new());
    for line in text.lines().take_while(|line| !line.is_empty()) {
        // Further lines of a value begin with a space: the licence's text.
        let Some((key, value)) = line.split_once(':').filter(|_| !line.starts_with([' ', '\t']))
        else {
            continue;
        };
        let value = value.trim().to_owned();
        match key.to_ascii_lowercase().as_str() {
            "name" => installed.name = value,
            "version" => installed.version = value,
            "license-expression" => expression = Some(value),
            "license" if !value.is_empty() && value != "UNKNOWN" => license = Some(value),
            "classifier" => {
                let found = value.strip_prefix("License :: ");
                classifiers
                    .extend(found.and_then(|rest| rest.rsplit(" :: ").next()).map(str::to_owned));
            }
            "requires-dist" => installed.requires.extend(required(&value)),
            _ => {}
        }
    }
    // "OSI Approved" alone says nothing.
    classifiers.retain(|classifier| classifier != "OSI Approved");
    let classified = (!classifiers.is_empty()).then(|| classifiers.join(", "));
    let stated = expression.or(license).or(classified);
    installed.license = stated.unwrap_or_default();
    installed
}

/// The normalized name of a requirement, unless only an extra asks for it.
fn required(requirement: &str) -> Option<String> {
    let (named, marker) = requirement.split_once(';').unwrap_or((requirement, ""));
    if marker.contains("extra") {
        return None;
    }
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let end = named.find(|letter| !is_of_name(letter)).unwrap_or(named.len());
    Some(normalized(&named[..end]))
}

/// The first parts of the paths in RECORD, or in the list that older installers wrote. Files outside of the directory, such as
/// programs, do not count.
fn tops(metadata: &Path) -> BTreeSet<String> {
    let lines = |name: &str| fs::read_to_string(metadata.join(name)).unwrap_or_default();
    let record = lines("RECORD");
    let paths = record.lines().filter_map(|line| line.split(',').next());
    let listed = lines("top_level.txt");
    let tops = paths.filter_map(|path| path.trim_matches('"').split('/').next());
    let modules = listed.lines().map(str::trim);
    let is_own = |top: &&str| !top.is_empty() && *top != ".." && *top != "__pycache__";
    tops.chain(modules).filter(is_own).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_licence_is_the_expression_else_the_line_else_the_classifiers() {
        let license =
            |headers: &str| parse(&format!("Name: a\n{headers}\n\nLicense: body")).license;
        let all = "License: BSD\nLicense-Expression: BSD-3-Clause\nClassifier: License :: OSI Approved :: BSD License";
        assert_eq!(license(all), "BSD-3-Clause");
        assert_eq!(license("License: MIT\n        text: of the licence"), "MIT");
        let classified = "License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License";
        assert_eq!(license(classified), "MIT License");
        assert_eq!(license("Version: 1"), "");
    }

    #[test]
    fn requirements_of_extras_do_not_count() {
        let found = parse(
            "Name: torch\nRequires-Dist: setuptools; python_version >= \"3.12\"\n\
             Requires-Dist: Typing_Extensions>=4\nRequires-Dist: optree ; extra == \"optree\"\n",
        );
        assert_eq!(found.requires, ["setuptools", "typing-extensions"]);
    }

    #[test]
    fn the_files_of_a_distribution_are_those_of_its_record() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = folder.path().join("a-1.dist-info");
        fs::create_dir(&metadata).unwrap();
        fs::write(metadata.join("METADATA"), "Name: a\nVersion: 1\n").unwrap();
        let record =
            "a/__init__.py,sha256=x,1\n_a.so,,\n../../../bin/a,,\n__pycache__/b.pyc,,\nb.py,,\n";
        fs::write(metadata.join("RECORD"), record).unwrap();
        let found = of_directory(folder.path()).unwrap();
        let tops: Vec<_> = found[0].tops.iter().collect();
        assert_eq!(tops, ["_a.so", "a", "a-1.dist-info", "b.py"]);
    }
}

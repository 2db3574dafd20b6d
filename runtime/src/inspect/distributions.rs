//! Which installed distribution a file belongs to.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::survey::names_library;

/// The owners of the libraries in some directories of packages, by the libraries' real paths.
///
/// Each distribution lists its files in `RECORD`, in a directory `NAME-VERSION.dist-info` beside its packages
/// (packaging.python.org, "Recording installed projects").
pub(super) struct Distributions {
    owners: HashMap<PathBuf, String>,
}

impl Distributions {
    /// Those of the directory of packages that each of `places` is or lies in.
    pub(super) fn around(places: &[PathBuf]) -> Distributions {
        let mut found = Distributions { owners: HashMap::new() };
        let mut seen = Vec::new();
        for place in places.iter().filter_map(|place| place.canonicalize().ok()) {
            for directory in place.ancestors() {
                let records = records(directory);
                if !records.is_empty() {
                    if !seen.contains(&directory.to_owned()) {
                        seen.push(directory.to_owned());
                        records
                            .iter()
                            .for_each(|(name, record)| found.read(directory, name, record));
                    }
                    break;
                }
            }
        }
        found
    }

    /// The name of the distribution that brought the file, without its version.
    pub(super) fn owner(&self, file: &Path) -> Option<&str> {
        self.owners.get(file).map(String::as_str)
    }

    /// Adds the libraries of one `RECORD`: a line for each file, its path first.
    fn read(&mut self, directory: &Path, name: &str, record: &Path) {
        // Tools that are not installers leave distributions without a RECORD.
        let Ok(text) = fs::read_to_string(record) else { return };
        for line in text.lines() {
            let path = match line.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next(),
                None => line.split(',').next(),
            };
            let path = path.map(Path::new).filter(|path| names_library(path));
            if let Some(file) = path.and_then(|path| directory.join(path).canonicalize().ok()) {
                self.owners.insert(file, name.to_owned());
            }
        }
    }
}

/// The distributions of a directory of packages, by name.
fn records(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let record = |entry: fs::DirEntry| {
        let file_name = entry.file_name();
        let (name, _version) = file_name.to_str()?.strip_suffix(".dist-info")?.split_once('-')?;
        Some((name.to_owned(), entry.path().join("RECORD")))
    };
    entries.filter_map(record).collect()
}

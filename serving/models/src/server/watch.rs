//! Finds changes in the repositories.

use crate::load::LoadError;
use crate::repository::Home;
use crate::server::Server;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

/// The repositories' models as they were at the last look.
#[derive(Debug, Default)]
pub struct Watch {
    seen: BTreeMap<String, u64>,
}

/// The changes between two looks.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Models that are new, or with a file whose size or time has changed.
    pub changed: Vec<String>,
    /// Models that are gone.
    pub gone: Vec<String>,
}

impl Watch {
    /// Looks at the files of all models. The first look finds all of them changed.
    ///
    /// A model whose files are being written is found again when they are whole.
    pub fn look(&mut self, server: &Server) -> Changes {
        let mut now = BTreeMap::new();
        for name in server.names() {
            // A folder may go while it is read.
            let print = match server.find(&name) {
                Ok(Home::Folder(folder)) => of_folder(&folder).ok(),
                Ok(Home::Package(package)) => of_file(&package.path).ok(),
                // The serving model goes on until only one of the two is left.
                Err(LoadError::Twice { .. }) => self.seen.get(&name).copied(),
                Err(_) => None,
            };
            now.extend(print.map(|print| (name, print)));
        }
        let before = std::mem::replace(&mut self.seen, now);
        let is_changed = |(name, print): &(&String, &u64)| before.get(*name) != Some(*print);
        Changes {
            changed: self.seen.iter().filter(is_changed).map(|(name, _)| name.clone()).collect(),
            gone: before.into_keys().filter(|name| !self.seen.contains_key(name)).collect(),
        }
    }
}

/// Which file it is, its size and time.
fn of_file(path: &Path) -> io::Result<u64> {
    let found = fs::metadata(path)?;
    let mut hasher = DefaultHasher::new();
    (found.ino(), found.len(), found.modified()?).hash(&mut hasher);
    Ok(hasher.finish())
}

/// Names, sizes and times of all files in a folder, apart from what Python writes there.
fn of_folder(folder: &Path) -> io::Result<u64> {
    let mut print = 0u64;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name() == "__pycache__" {
                continue;
            }
            let (path, found) = (entry.path(), entry.metadata()?);
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            if found.is_dir() {
                folders.push(path);
            } else {
                // A link counts as its target.
                let found = fs::metadata(&path).unwrap_or(found);
                (found.len(), found.modified()?).hash(&mut hasher);
            }
            // A folder's entries come in any order.
            print = print.wrapping_add(hasher.finish());
        }
    }
    Ok(print)
}

#[cfg(test)]
mod tests {
    use super::{Changes, Watch};
    use crate::Server;
    use std::fs;

    #[test]
    fn a_look_finds_what_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::new(hydrozoa::Pool::builder);
        server.add_repository(folder.path());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mut watch = Watch::default();
        let mut look = || {
            let Changes { changed, gone } = watch.look(&server);
            (changed.join(","), gone.join(","))
        };
        let found = |changed: &str, gone: &str| (changed.to_owned(), gone.to_owned());
        assert_eq!(look(), found("", ""));
        write("a/1/model.py", "x");
        write("b/1/model.py", "x");
        assert_eq!(look(), found("a,b", ""));
        assert_eq!(look(), found("", ""));
        write("a/1/__pycache__/model.pyc", "x");
        assert_eq!(look(), found("", ""));
        write("a/1/model.py", "longer");
        assert_eq!(look(), found("a", ""));
        write("a/2/model.py", "x");
        write("c/config.pbtxt", "");
        fs::remove_dir_all(folder.path().join("b")).unwrap();
        assert_eq!(look(), found("a,c", "b"));
    }
}

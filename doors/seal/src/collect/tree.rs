//! The files that a sealed application takes along, by their places below its root.

use super::error::CollectError;
use super::native::elf;
use super::walk;
use crate::member::{Bytes, Kind, Member};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A module to compile.
#[derive(Clone, Debug)]
pub(super) struct Module {
    /// Below the root: that of its source, or of its `.pyc` if there is no source.
    pub(super) path: String,
    pub(super) file: PathBuf,
}

/// The files that have been collected so far.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, (Kind, PathBuf)>,
    /// Files and directories that stay out, by the paths that they would have.
    left_out: BTreeMap<String, PathBuf>,
}

impl Tree {
    /// Takes the files of a directory along, below `prefix`, but for what `leaves_out` says.
    pub(super) fn take(
        &mut self,
        directory: &Path,
        prefix: &str,
        leaves_out: &dyn Fn(&str) -> bool,
    ) -> Result<(), CollectError> {
        let left_out = &mut self.left_out;
        let found = walk::files(directory, &mut |name| {
            let stays_out = leaves_out(name);
            if stays_out {
                left_out.insert(format!("{prefix}/{name}"), directory.join(name));
            }
            stays_out
        })?;
        for file in found {
            self.add(format!("{prefix}/{}", file.name), file.path)?;
        }
        Ok(())
    }

    /// Takes a file along. Its name and its first bytes say its kind.
    pub(super) fn add(&mut self, path: String, file: PathBuf) -> Result<(), CollectError> {
        let kind = kind_of(&path, &file)?;
        self.add_as(kind, path, file)
    }

    /// Takes a file along as one of this kind.
    pub(super) fn add_as(
        &mut self,
        kind: Kind,
        path: String,
        file: PathBuf,
    ) -> Result<(), CollectError> {
        walk::check(&path, &file)?;
        if let Some((_, first)) = self.files.get(&path) {
            return match is_same(first, &file) {
                true => Ok(()),
                false => Err(CollectError::Twice { path, first: first.clone(), second: file }),
            };
        }
        self.files.insert(path, (kind, file));
        Ok(())
    }

    /// Whether a file is at the path.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// The file at the path.
    pub(super) fn file(&self, path: &str) -> Option<&Path> {
        self.files.get(path).map(|(_, file)| file.as_path())
    }

    /// The shared libraries, by their paths.
    pub(super) fn libraries(&self) -> impl Iterator<Item = (&str, &Path)> {
        let libraries = self.files.iter().filter(|(_, (kind, _))| *kind == Kind::Library);
        libraries.map(|(path, (_, file))| (path.as_str(), file.as_path()))
    }

    /// The files and directories that stay out: the paths that they would have, and where they are.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.left_out.iter().map(|(path, file)| (path.as_str(), file.as_path()))
    }

    /// The paths of all files, in order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The modules to compile: sources, and `.pyc` files that have no source beside them.
    pub(super) fn modules(&self) -> Vec<Module> {
        let compiled = self.files.iter().filter(|(_, (kind, _))| *kind == Kind::Code);
        let sources = self.files.iter().filter(|(_, (kind, _))| *kind == Kind::Source);
        let sourceless = compiled.filter(|(path, _)| {
            path.strip_suffix('c').is_some_and(|source| !self.files.contains_key(source))
        });
        let module = |(path, (_, file)): (&String, &(Kind, PathBuf))| Module {
            path: path.clone(),
            file: file.clone(),
        };
        sources.chain(sourceless).map(module).collect()
    }

    /// All members: the files, and `codes`, the code of modules by their paths. A source without code is data. With `sources`
    /// false, the sources of the others stay out.
    pub(super) fn into_members(
        self,
        codes: BTreeMap<String, Vec<u8>>,
        sources: bool,
    ) -> Vec<Member> {
        let mut members = Vec::with_capacity(self.files.len() + codes.len());
        for (path, (kind, file)) in self.files {
            let kind = match kind {
                Kind::Source if !codes.contains_key(&path) => Kind::Data,
                Kind::Source if !sources => continue,
                // The file is not taken; its code is.
                Kind::Code => continue,
                kind => kind,
            };
            members.push(Member { path, kind, bytes: Bytes::File(file) });
        }
        let code = |(path, code)| Member { path, kind: Kind::Code, bytes: Bytes::Memory(code) };
        members.extend(codes.into_iter().map(code));
        members
    }
}

fn kind_of(path: &str, file: &Path) -> Result<Kind, CollectError> {
    let name = path.rsplit('/').next().unwrap_or(path);
    Ok(if name.ends_with(".py") {
        Kind::Source
    } else if name.ends_with(".pyc") {
        Kind::Code
    } else if elf::is_named_so(name) && elf::is_library(file)? {
        Kind::Library
    } else {
        Kind::Data
    })
}

/// Whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_files_count_only_without_their_source() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::default();
        for name in ["both.py", "both.pyc", "alone.pyc", "broken.py", "note.txt"] {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            tree.add(format!("lib/{name}"), file).unwrap();
        }
        let modules: Vec<_> = tree.modules().into_iter().map(|module| module.path).collect();
        assert_eq!(modules, ["lib/both.py", "lib/broken.py", "lib/alone.pyc"]);

        let codes = ["lib/both.py", "lib/alone.pyc"].map(|path| (path.to_owned(), Vec::new()));
        let members = tree.into_members(codes.into(), true);
        let members: Vec<_> =
            members.iter().map(|member| (member.path.as_str(), member.kind)).collect();
        let expected = [
            ("lib/both.py", Kind::Source),
            ("lib/broken.py", Kind::Data),
            ("lib/note.txt", Kind::Data),
            ("lib/alone.pyc", Kind::Code),
            ("lib/both.py", Kind::Code),
        ];
        assert_eq!(members, expected);
    }

    #[test]
    fn two_files_for_one_place_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "").unwrap();
        fs::write(&other, "").unwrap();
        let mut tree = Tree::default();
        tree.add("app/x".to_owned(), one.clone()).unwrap();
        tree.add("app/x".to_owned(), one).unwrap();
        let error = tree.add("app/x".to_owned(), other).unwrap_err().to_string();
        assert!(
            error.starts_with("app/x would be ") && error.contains("/other; rename"),
            "{error}"
        );
    }
}

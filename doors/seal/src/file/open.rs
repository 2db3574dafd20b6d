//! A sealed file that tools read.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::elf::{Elf, Flaw, Part};
use super::error::Error;
use super::manifest::Manifest;
use super::place::{self, SealPlace, Span};
use super::record::Record;

/// A sealed application in a file: what is inside, and whether it is as it was sealed.
#[derive(Debug)]
pub struct Sealed {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Where the header is.
    pub(super) at: u64,
    pub(super) place: SealPlace,
    pub(super) record: Record,
    pub(super) manifest: Manifest,
}

impl Sealed {
    /// Reads the tables of a sealed application, and nothing of its members. The file may be damaged in any way: that is an
    /// error, or is found by [`verify`](Sealed::verify).
    ///
    /// # Errors
    /// [`Error::NotSealed`], [`Error::Truncated`], [`Error::Damaged`], [`Error::Io`].
    pub fn open(path: &Path) -> Result<Sealed, Error> {
        let file = File::open(path).map_err(Error::io(path, "open it"))?;
        let length = file.metadata().map_err(Error::io(path, "examine it"))?.len();
        let not_sealed = || Error::NotSealed { path: path.to_owned() };
        let damaged =
            |reason: &str| Error::Damaged { path: path.to_owned(), reason: reason.into() };
        let read = |flaw| match flaw {
            Flaw::Io(source) => Error::io(path, "read it")(source),
            Flaw::Malformed(_) => not_sealed(),
        };
        let part = Part::new(&file, 0, length);
        let elf = Elf::read(part).map_err(read)?;
        let mut places = place::find(&elf, part).map_err(read)?;
        places.retain(|(_, place)| place.length > 0);
        let is_whole = |found: &&(u64, SealPlace)| found.1.is_in_order(found.0);
        let found = places.iter().find(is_whole).or(places.first());
        let (at, place) = found.cloned().ok_or_else(not_sealed)?;
        if length < place.length {
            let (expected, found) = (place.length, length);
            return Err(Error::Truncated { path: path.to_owned(), expected, found });
        }
        if length > place.length {
            return Err(damaged("it has bytes behind its end"));
        }
        if !place.is_in_order(at) {
            return Err(damaged("its header is not as it was written"));
        }
        let bytes = |span: Span| match part.read(span.offset, span.length) {
            Ok(bytes) => Ok(bytes),
            Err(Flaw::Io(source)) => Err(Error::io(path, "read it")(source)),
            Err(Flaw::Malformed(reason)) => Err(damaged(reason)),
        };
        let manifest = Manifest::parse(&bytes(place.manifest)?).map_err(|text| damaged(&text))?;
        manifest.check(&place).map_err(damaged)?;
        let record = Record::parse(&bytes(place.record)?).map_err(damaged)?;
        Ok(Sealed { path: path.to_owned(), file, at, place, record, manifest })
    }

    /// The bytes of a part of the file.
    pub(super) fn part(&self) -> Part<'_> {
        Part::new(&self.file, 0, self.place.length)
    }

    /// The file's name.
    pub(super) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;
    use std::fs;

    fn refusal(path: &Path) -> String {
        Sealed::open(path).unwrap_err().to_string()
    }

    #[test]
    fn what_was_sealed_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let sealed = Sealed::open(&trial::sealed(directory.path())).unwrap();
        assert_eq!(sealed.name(), "app");
        assert_eq!(sealed.manifest.members.len(), trial::members(directory.path()).len());
        assert_eq!(sealed.record.entry, ["script", "main.py"]);
    }

    #[test]
    fn a_truncated_file_is_one_line_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = trial::sealed(directory.path());
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let text = refusal(&path);
        let (expected, found) = (whole.len(), whole.len() - 1);
        let told = format!("app: is truncated: it should have {expected} bytes and has {found}");
        assert!(text.contains(&told) && !text.contains('\n'), "{text}");
        fs::write(&path, [&*whole, b"more"].concat()).unwrap();
        assert!(refusal(&path).contains("it has bytes behind its end"));
    }

    #[test]
    fn other_files_are_not_sealed() {
        let directory = tempfile::tempdir().unwrap();
        let base = trial::base(directory.path());
        for path in [&base, &base.with_extension("c"), Path::new("/bin/sh")] {
            assert!(refusal(path).contains("is not a sealed application"), "{}", path.display());
        }
        assert!(refusal(directory.path()).contains("cannot read it"));
    }
}

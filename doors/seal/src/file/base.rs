//! The executable that is sealed.

use std::fs::File;
use std::path::{Path, PathBuf};

use goblin::elf64::header::{EM_AARCH64, EM_X86_64, ET_DYN, ET_EXEC};
use goblin::elf64::section_header::SectionHeader;

use super::elf::{Elf, Flaw, Part};
use super::error::Error;
use super::place;

pub(super) struct Base {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) length: u64,
    pub(super) elf: Elf,
    pub(super) sections: Vec<SectionHeader>,
    /// Where the header of a sealed application is to be written.
    pub(super) place: u64,
}

impl Base {
    /// Opens an executable, and makes sure that it can be sealed.
    pub(super) fn open(path: &Path) -> Result<Base, Error> {
        let file = File::open(path).map_err(Error::io(path, "open it"))?;
        let length = file.metadata().map_err(Error::io(path, "examine it"))?.len();
        let part = Part::new(&file, 0, length);
        let elf = Elf::read(part).map_err(flaw(path))?;
        let refuse =
            |reason: &str| Error::Base { path: path.to_owned(), reason: reason.to_owned() };
        if !matches!(elf.header.e_type, ET_DYN | ET_EXEC) {
            return Err(refuse("it is no executable"));
        }
        if page(elf.header.e_machine).is_none() {
            return Err(refuse("it is for another processor"));
        }
        let sections = elf.sections(part).map_err(flaw(path))?;
        let places = place::find(&elf, part).map_err(flaw(path))?;
        if places.iter().any(|(at, place)| place.length > 0 && place.is_in_order(*at)) {
            return Err(Error::SealedAlready { path: path.to_owned() });
        }
        let mut empty = places.iter().filter(|(_, place)| place.is_empty()).map(|(at, _)| *at);
        let place = empty.next().ok_or_else(|| Error::NoPlace { path: path.to_owned() })?;
        let count = 1 + empty.count();
        if count > 1 {
            return Err(Error::ManyPlaces { path: path.to_owned(), count });
        }
        Ok(Base { path: path.to_owned(), file, length, elf, sections, place })
    }

    /// The file's bytes.
    pub(super) fn part(&self) -> Part<'_> {
        Part::new(&self.file, 0, self.length)
    }

    /// The largest page that the processor may use.
    pub(super) fn page(&self) -> u64 {
        page(self.elf.header.e_machine).unwrap_or(LARGEST_PAGE)
    }
}

const LARGEST_PAGE: u64 = 65536;

fn page(machine: u16) -> Option<u64> {
    match machine {
        EM_X86_64 => Some(4096),
        EM_AARCH64 => Some(LARGEST_PAGE),
        _ => None,
    }
}

/// The error of a table in an executable.
pub(super) fn flaw(path: &Path) -> impl Fn(Flaw) -> Error {
    let path = path.to_owned();
    move |flaw| match flaw {
        Flaw::Io(source) => Error::Io { path: path.clone(), action: "read it", source },
        Flaw::Malformed(reason) => Error::Base { path: path.clone(), reason: reason.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;

    fn refusal(path: &Path) -> String {
        Base::open(path).err().unwrap().to_string()
    }

    #[test]
    fn a_base_has_one_place_and_is_not_sealed() {
        let directory = tempfile::tempdir().unwrap();
        let base = Base::open(&trial::base(directory.path())).unwrap();
        assert!(base.place > 0 && base.page() >= 4096);
        let none = refusal("/bin/sh".as_ref());
        assert!(none.starts_with("/bin/sh: was not built with the feature `embed`"), "{none}");
        let two =
            trial::compiled(directory.path(), "two", &trial::SOURCE.replace("main", "one"), &[]);
        assert!(two.is_none(), "a program needs main");
        let second = format!(
            "{}{}",
            trial::SOURCE,
            trial::SOURCE.replace("main", "second").replace("place", "other")
        );
        let two = trial::compiled(directory.path(), "two", &second, &[]).unwrap();
        assert!(refusal(&two).contains("holds the runtime 2 times"));
    }

    #[test]
    fn a_sealed_application_is_no_base() {
        let directory = tempfile::tempdir().unwrap();
        let sealed = trial::sealed(directory.path());
        assert!(refusal(&sealed).contains("is a sealed application already"));
    }

    #[test]
    fn texts_and_absent_files_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text");
        std::fs::write(&text, "#!/bin/sh").unwrap();
        assert!(refusal(&text).contains("text: cannot be sealed: it is no ELF file"));
        assert!(refusal(&directory.path().join("absent")).contains("absent: cannot open it"));
    }
}

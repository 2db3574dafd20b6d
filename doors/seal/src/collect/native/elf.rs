//! Dynamic sections: the libraries that a library needs, where it looks for them, and the glibc that it is made for.

use crate::collect::error::CollectError;
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::dynamic::{self, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME};
use goblin::elf::header::{EM_AARCH64, EM_X86_64, ET_DYN};
use goblin::elf::symver::VerneedSection;
use goblin::elf::{Elf, ProgramHeader, SectionHeader};
use memmap2::Mmap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The machine that this program is built for.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

/// The dynamic section of a library, as far as its search for others goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dynamic {
    pub(crate) soname: Option<String>,
    pub(crate) needed: Vec<String>,
    /// Directories of DT_RPATH. They count only without DT_RUNPATH (ld.so(8)), and for what its libraries need too.
    pub(crate) rpath: Vec<String>,
    pub(crate) runpath: Vec<String>,
    /// The newest `GLIBC_2.N` that it wants: the numbers.
    pub(crate) glibc: Option<(u32, u32)>,
}

/// Whether it is the name of a shared library: `libz.so.1`, `_ssl.cpython-312-x86_64-linux-gnu.so`.
pub(crate) fn is_named_so(name: &str) -> bool {
    name.ends_with(".so") || name.contains(".so.")
}

/// Whether the file is a shared library for this machine. Scripts of linkers have such names too, and libraries for others.
pub(crate) fn is_library(path: &Path) -> Result<bool, CollectError> {
    let mut header = [0; 20];
    let mut file = File::open(path).map_err(CollectError::read(path))?;
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
        other => other.map_err(CollectError::read(path))?,
    }
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    // e_ident: magic, ELFCLASS64, ELFDATA2LSB; then e_type and e_machine (gABI, chapter 4).
    Ok(header.starts_with(b"\x7fELF\x02\x01") && half(16) == ET_DYN && half(18) == MACHINE)
}

impl Dynamic {
    /// Reads a library's dynamic section.
    pub(crate) fn read(path: &Path) -> Result<Self, CollectError> {
        let damaged = |reason: String| CollectError::Library { path: path.to_owned(), reason };
        let file = File::open(path).map_err(CollectError::read(path))?;
        // SAFETY: the bytes are only read. If another process shortens the file meanwhile, this one ends by SIGBUS; installers
        // replace files rather than shorten them.
        let bytes = unsafe { Mmap::map(&file) }.map_err(CollectError::read(path))?;
        Self::parse(&bytes).map_err(damaged)
    }

    /// Parses no more than is asked for. goblin's whole parse would look at each name of a library's symbols.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = |error: goblin::error::Error| error.to_string();
        let header = Elf::parse_header(bytes).map_err(text)?;
        let context = Ctx::new(Container::Big, Endian::Little);
        let segments = ProgramHeader::parse(
            bytes,
            header.e_phoff as usize,
            usize::from(header.e_phnum),
            context,
        )
        .map_err(text)?;
        let section = dynamic::Dynamic::parse(bytes, &segments, context).map_err(text)?;
        // A library may do without one, if it needs nothing.
        let Some(section) = section else { return Ok(Self::default()) };
        let names = section.info.strtab..section.info.strtab.saturating_add(section.info.strsz);
        let names = bytes.get(names).ok_or("its table of names lies outside of the file")?;
        let name = |at: u64| text_at(names, at as usize);
        let mut found = Self::default();
        for entry in &section.dyns {
            let list = match entry.d_tag {
                DT_RPATH => &mut found.rpath,
                DT_RUNPATH => &mut found.runpath,
                DT_NEEDED => {
                    found.needed.push(name(entry.d_val).to_owned());
                    continue;
                }
                DT_SONAME => {
                    found.soname = Some(name(entry.d_val).to_owned());
                    continue;
                }
                _ => continue,
            };
            let parts = name(entry.d_val).split(':').filter(|part| !part.is_empty());
            list.extend(parts.map(str::to_owned));
        }
        // Without sections, the versions stay unknown.
        let (offset, count) = (header.e_shoff as usize, usize::from(header.e_shnum));
        let sections = SectionHeader::parse(bytes, offset, count, context).unwrap_or_default();
        let versions = VerneedSection::parse(bytes, &sections, context).map_err(text)?;
        for need in versions.iter().flat_map(VerneedSection::iter) {
            for version in need.iter() {
                found.glibc = found.glibc.max(glibc(name(version.vna_name as u64)));
            }
        }
        Ok(found)
    }
}

/// The text that begins at a place of a table of names; empty if there is none.
fn text_at(names: &[u8], at: usize) -> &str {
    let rest = names.get(at..).unwrap_or_default();
    let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(text).unwrap_or_default()
}

/// The numbers of `GLIBC_2.17`. `GLIBC_PRIVATE` and the versions of other libraries have none.
fn glibc(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next().unwrap_or("0").parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(glibc("GLIBC_2.9") < glibc("GLIBC_2.17"));
        assert_eq!(glibc("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(glibc("GLIBC_PRIVATE"), None);
        assert_eq!(glibc("GLIBCXX_3.4"), None);
    }

    #[test]
    fn a_script_with_the_name_of_a_library_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libc.so");
        for content in ["", "INPUT(libc.so.6)", "\x7fELF\x01\x01 of another machine ....."] {
            std::fs::write(&path, content).unwrap();
            assert!(!is_library(&path).unwrap(), "{content}");
        }
    }

    #[test]
    fn a_damaged_library_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libdamaged.so");
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0xff);
        std::fs::write(&path, bytes).unwrap();
        let error = Dynamic::read(&path).unwrap_err().to_string();
        assert!(error.contains("libdamaged.so: it is not a readable shared library"), "{error}");
    }
}

//! Dynamic sections: the libraries that a library needs, where it looks for them, and the glibc that it is made for.

use crate::collect::error::CollectError;
use goblin::elf::dynamic::{DT_RPATH, DT_RUNPATH};
use goblin::elf::header::{EM_AARCH64, EM_X86_64, ET_DYN};
use goblin::elf::Elf;
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
        let elf = Elf::parse(&bytes).map_err(|error| damaged(error.to_string()))?;
        let mut dynamic = Self {
            soname: elf.soname.map(str::to_owned),
            needed: elf.libraries.iter().map(|name| (*name).to_owned()).collect(),
            ..Self::default()
        };
        for entry in elf.dynamic.iter().flat_map(|section| &section.dyns) {
            let list = match entry.d_tag {
                DT_RPATH => &mut dynamic.rpath,
                DT_RUNPATH => &mut dynamic.runpath,
                _ => continue,
            };
            let text = elf.dynstrtab.get_at(entry.d_val as usize).unwrap_or_default();
            list.extend(text.split(':').filter(|part| !part.is_empty()).map(str::to_owned));
        }
        for need in elf.verneed.iter().flat_map(|section| section.iter()) {
            for version in need.iter() {
                let name = elf.dynstrtab.get_at(version.vna_name).unwrap_or_default();
                dynamic.glibc = dynamic.glibc.max(glibc(name));
            }
        }
        Ok(dynamic)
    }
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

//! glibc's messages for failed loads, for programs that read `dlerror`.
//!
//! Programs search these texts ("cannot open shared object file", "version `GLIBC_2.38' not found"), and their users
//! know them. [`Error`]'s own words say more. They go to the log, and to users of this crate.

use std::ffi::CStr;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use goblin::elf::header;
use goblin::elf::program_header::{PT_DYNAMIC, PT_LOAD};

use crate::arch;
use crate::error::Error;
use crate::image::provided::{self, Kept};
use crate::image::{IMAGES, Image};
use crate::sys::page_size;
use crate::system::SYSTEM;
use crate::system::search::{self, Level};

/// glibc's text for `error`, which a program got by opening `opened`. An error unknown to glibc, such as
/// exhausted static TLS of many replicas, keeps its own words.
pub(super) fn of(error: &Error, opened: &Path) -> String {
    let name = |object: &Path| name_of(object, opened).display().to_string();
    match error {
        Error::NotFound { object, .. } => not_opened(object, libc::ENOENT),
        Error::Io { object, source, action: "open" } => {
            not_opened(&object.display(), source.raw_os_error().unwrap_or(libc::EIO))
        }
        Error::UndefinedSymbol { object, symbol, version } => {
            if version.is_some()
                && let Some(text) = IMAGES.at(object).and_then(|image| of_versions(&image, &name))
            {
                return text;
            }
            let version = version.as_ref().map(|version| format!(", version {version}"));
            format!("{}: undefined symbol: {symbol}{}", name(object), version.unwrap_or_default())
        }
        Error::Malformed { object, reason } | Error::Refused { object, reason } => {
            let known = SHARED.iter().find(|text| reason.starts_with(**text));
            let text = known.map(|text| (*text).to_owned()).or_else(|| of_file(object));
            match text {
                Some(text) if text == NOT_OPENED => not_opened(&name(object), libc::ENOENT),
                text => format!("{}: {}", name(object), text.as_ref().unwrap_or(reason)),
            }
        }
        Error::Io { object, .. } => match of_file(object) {
            Some(text) => format!("{}: {text}", name(object)),
            None => error.to_string(),
        },
        Error::System { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Texts of glibc with which reasons of ours begin.
const SHARED: [&str; 2] = [
    "cannot dynamically load position-independent executable",
    "shared object cannot be dlopen()ed",
];

const NOT_OPENED: &str = "cannot open shared object file";

fn not_opened(object: &dyn Display, code: i32) -> String {
    format!("{object}: {NOT_OPENED}: {}", reason(code))
}

/// The text of an error number.
pub(super) fn reason(code: i32) -> String {
    // SAFETY: strerror returns a string that is valid until the thread's next call.
    unsafe { CStr::from_ptr(libc::strerror(code)) }.to_string_lossy().into_owned()
}

/// The name by which a program knows an object: as it opened it, or as it was found. glibc does not resolve
/// symbolic links in it.
fn name_of(object: &Path, opened: &Path) -> PathBuf {
    match provided::canonical(opened) {
        // Not a name to search for: a file here may have that name too.
        Ok(canonical) if canonical == object && opened.components().count() > 1 => opened.into(),
        _ => IMAGES.found_as(object).unwrap_or_else(|| object.to_owned()),
    }
}

/// glibc's message for the first version that `image` needs of a library that does not define it
/// (elf/dl-version.c, match_symbol). A library without versions counts as having every version.
fn of_versions(image: &Image, name: &dyn Fn(&Path) -> String) -> Option<String> {
    image.symbols.versions.needed().iter().find_map(|(version, library)| {
        let library = str::from_utf8(library).ok()?;
        let (provider, lacks) = match SYSTEM.by_name(library) {
            Some(object) => (object.path.clone(), object.symbols.versions.lacks(version)),
            None => {
                let path = search::find(library, &[Level::of(image)]).ok()?;
                let lacks = IMAGES.open(&path).ok()?.symbols.versions.lacks(version);
                (path, lacks)
            }
        };
        let version = String::from_utf8_lossy(version);
        let (provider, requester) = (provider.display(), name(&image.path));
        lacks
            .then(|| format!("{provider}: version `{version}' not found (required by {requester})"))
    })
}

/// glibc's message for the file at `path`, if it cannot be loaded. The checks run in glibc's order (`open_verify` and
/// `_dl_map_object_from_fd`, elf/dl-load.c).
fn of_file(path: &Path) -> Option<String> {
    let opened = provided::open(path).ok()?;
    match of_open_file(&opened) {
        Ok(text) => text.map(str::to_owned),
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(libc::EIO);
            Some(format!("cannot read file data: {}", reason(code)))
        }
    }
}

fn of_open_file(opened: &Kept) -> io::Result<Option<&'static str>> {
    let head = opened.read(0, header::header64::SIZEOF_EHDR)?;
    let half = |at| u16::from_le_bytes([head[at], head[at + 1]]);
    if head.len() < header::header64::SIZEOF_EHDR {
        return Ok(Some("file too short"));
    }
    if let Some(text) = of_identity(&head[..header::SIZEOF_IDENT]) {
        return Ok(Some(text));
    }
    if u32::from_le_bytes([head[20], head[21], head[22], head[23]]) != header::EV_CURRENT.into() {
        return Ok(Some("ELF file version does not match current one"));
    }
    // It is passed over, as if it was not there.
    if half(18) != arch::MACHINE {
        return Ok(Some(NOT_OPENED));
    }
    match half(16) {
        header::ET_DYN => {}
        header::ET_EXEC => return Ok(Some("cannot dynamically load executable")),
        _ => return Ok(Some("only ET_DYN and ET_EXEC can be loaded")),
    }
    const ENTRY: usize = 56;
    if usize::from(half(54)) != ENTRY {
        return Ok(Some("ELF file's phentsize not the expected size"));
    }
    let at = u64::from_le_bytes(head[32..40].try_into().expect("eight bytes"));
    let length = usize::from(half(56)) * ENTRY;
    let table = opened.read(at, length)?;
    if table.len() < length {
        return Ok(Some("cannot read file data"));
    }
    Ok(of_program_headers(table.chunks_exact(ENTRY)))
}

fn of_identity(identity: &[u8]) -> Option<&'static str> {
    let [class, data, version, system, release] =
        [4, 5, 6, 7, 8].map(|index: usize| identity[index]);
    Some(match () {
        () if &identity[..4] != header::ELFMAG => "invalid ELF header",
        () if class != header::ELFCLASS64 => "wrong ELF class: ELFCLASS32",
        () if data != header::ELFDATA2LSB => "ELF file data encoding not little-endian",
        () if version != header::EV_CURRENT => "ELF file version ident does not match current one",
        () if !matches!(system, header::ELFOSABI_NONE | header::ELFOSABI_GNU) => {
            "ELF file OS ABI invalid"
        }
        () if release != 0 && system == header::ELFOSABI_NONE => "ELF file ABI version invalid",
        () if identity[9..].iter().any(|byte| *byte != 0) => "nonzero padding in e_ident",
        () => return None,
    })
}

fn of_program_headers<'a>(headers: impl Iterator<Item = &'a [u8]> + Clone) -> Option<&'static str> {
    let kind = |header: &[u8]| u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
    let word = |header: &[u8], at: usize| {
        u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
    };
    let mut loads = headers.clone().filter(|header| kind(header) == PT_LOAD).peekable();
    if loads.peek().is_none() {
        return Some("object file has no loadable segments");
    }
    let (offset, address) = (8, 16);
    let is_skewed = |header: &[u8]| {
        !word(header, address).wrapping_sub(word(header, offset)).is_multiple_of(page_size() as u64)
    };
    if loads.any(is_skewed) {
        return Some("ELF load command address/offset not page-aligned");
    }
    let has_dynamic = headers.into_iter().any(|header| kind(header) == PT_DYNAMIC);
    (!has_dynamic).then_some("object file has no dynamic section")
}

//! The search for a needed name: RPATH, LD_LIBRARY_PATH, RUNPATH, `ld.so.cache`, default directories
//! (ld.so(8); glibc's `_dl_map_object`, elf/dl-load.c).

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::arch;
use crate::error::Error;
use crate::image::IMAGES;
use crate::image::Image;
use crate::image::{enclosure, provided};
use crate::sys::file::{self, FileId, is_refusal};
use crate::sys::lock::Once;
use crate::system::SYSTEM;

/// One object's own search path.
#[derive(Clone, Copy)]
pub(crate) struct Level<'a> {
    pub origin: &'a Path,
    pub rpath: Option<&'a str>,
    pub runpath: Option<&'a str>,
}

/// The objects whose search paths count: the object that needs a name, the object that needs that one, and
/// so on, because a RPATH (unlike a RUNPATH) is inherited. Empty if no object asks.
pub(crate) type Chain<'a> = [Level<'a>];

impl<'a> Level<'a> {
    pub(crate) fn of(image: &'a Image) -> Level<'a> {
        let dynamic = &image.dynamic;
        Level { origin: image.origin(), rpath: dynamic.rpath, runpath: dynamic.runpath }
    }
}

/// The directories of the RPATHs that count: none if the object has a RUNPATH, and none of an ancestor
/// that has one.
fn inherited<'a>(chain: &'a Chain<'a>) -> impl Iterator<Item = PathBuf> + 'a {
    let counts = chain.first().is_some_and(|own| own.runpath.is_none());
    chain
        .iter()
        .filter(move |level| counts && level.runpath.is_none())
        .flat_map(|level| directories(level.rpath, level.origin))
}

/// Why no file is known for a name.
#[derive(Debug)]
pub(crate) enum Absence {
    /// The searched places lack it.
    Nowhere(Vec<String>),
    /// One of the places could not be examined.
    Unknown(Error),
}

/// The error of a place that could not be examined.
fn unknown(place: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Absence {
    let object = place.to_owned();
    move |source| Absence::Unknown(Error::Io { object, action, source })
}

/// The file for `name`.
pub(crate) fn find(name: &str, chain: &Chain<'_>) -> Result<PathBuf, Absence> {
    let requester = chain.first();
    let enclosure = requester.and_then(|requester| enclosure::of(requester.origin));
    if name.contains('/') {
        let path = match requester {
            Some(requester) => expand(name, requester.origin),
            None => PathBuf::from(name),
        };
        if let Some(enclosure) = enclosure {
            enclosure.check(&path).map_err(Absence::Unknown)?;
        }
        return match provided::regular_file(&path).map_err(unknown(&path, "stat"))? {
            Some(_) => Ok(path),
            None => Err(Absence::Nowhere(vec![path.display().to_string()])),
        };
    }
    let mut searched = Vec::new();
    let mut try_in = |directory: &Path| {
        if !enclosure.is_none_or(|enclosure| enclosure.admits(directory)) {
            return None;
        }
        let candidate = directory.join(name);
        // An ELF of another machine in the path is passed over, as glibc does.
        match provided::regular_file(&candidate) {
            Ok(Some(file)) if IMAGES.holds(file) || SYSTEM.holds(file) || is_native(&candidate) => {
                return Some(Ok(candidate));
            }
            Ok(_) => {}
            Err(error) => return Some(Err(unknown(&candidate, "stat")(error))),
        }
        searched.push(directory.display().to_string());
        None
    };
    if let Some(found) = inherited(chain).find_map(|directory| try_in(&directory)) {
        return found;
    }
    let environment = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    for directory in environment.split([':', ';']).filter(|directory| !directory.is_empty()) {
        if let Some(found) = try_in(Path::new(directory)) {
            return found;
        }
    }
    if let Some(requester) = requester
        && let Some(found) = directories(requester.runpath, requester.origin)
            .find_map(|directory| try_in(&directory))
    {
        return found;
    }
    if let Some(enclosure) = enclosure {
        if let Some(found) = try_in(&enclosure.libraries) {
            return found;
        }
        // Without a requester the search is the machine's.
        return match enclosure.leaves_to_the_machine(name) {
            true => find(name, &[]),
            false => Err(Absence::Nowhere(searched)),
        };
    }
    let cache = cache().map_err(unknown(Path::new(CACHE_FILE), "read"))?;
    if let Some(path) = cached(cache, name)
        && FileId::of_regular(&path).map_err(unknown(&path, "stat"))?.is_some()
    {
        return Ok(path);
    }
    if let Some(found) =
        arch::LIBRARY_DIRECTORIES.iter().find_map(|directory| try_in(Path::new(directory)))
    {
        return found;
    }
    searched.push("the ld.so cache".into());
    Err(Absence::Nowhere(searched))
}

/// The directories in which a name without a slash is searched, in order.
pub(crate) fn directories_of(chain: &Chain<'_>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = inherited(chain).collect();
    let environment = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    found.extend(environment.split([':', ';']).filter(|at| !at.is_empty()).map(PathBuf::from));
    if let Some(own) = chain.first() {
        found.extend(directories(own.runpath, own.origin));
    }
    match chain.first().and_then(|own| enclosure::of(own.origin)) {
        Some(enclosure) => {
            found.retain(|directory| enclosure.admits(directory));
            found.push(enclosure.libraries.clone());
        }
        None => found.extend(arch::LIBRARY_DIRECTORIES.map(PathBuf::from)),
    }
    found
}

fn directories<'a>(list: Option<&'a str>, origin: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    list.unwrap_or_default()
        .split(':')
        .filter(|directory| !directory.is_empty())
        .map(move |directory| expand(directory, origin))
}

fn expand(text: &str, origin: &Path) -> PathBuf {
    let origin = origin.as_os_str();
    let tokens: [(&str, &OsStr); 3] =
        [("ORIGIN", origin), ("LIB", arch::LIB.as_ref()), ("PLATFORM", arch::PLATFORM.as_ref())];
    let mut expanded = OsString::with_capacity(text.len() + origin.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push(before);
        let known = tokens.iter().find_map(|(token, value)| {
            let in_braces = || after.strip_prefix('{')?.strip_prefix(token)?.strip_prefix('}');
            Some((*value, in_braces().or_else(|| after.strip_prefix(token))?))
        });
        let (text, behind) = known.unwrap_or((OsStr::new("$"), after));
        expanded.push(text);
        rest = behind;
    }
    expanded.push(rest);
    PathBuf::from(expanded)
}

/// Whether the file begins as an ELF object for this machine.
fn is_native(path: &Path) -> bool {
    /// Up to the machine's number.
    const HEAD: usize = 20;
    // A file too short or with another magic is an error for the loader to name, not to skip.
    provided::open(path).and_then(|file| file.read(0, HEAD)).map_or(true, |head| {
        head.len() < HEAD
            || &head[..4] != b"\x7fELF"
            || (head[4] == 2 && u16::from_le_bytes([head[18], head[19]]) == arch::MACHINE)
    })
}

const CACHE_FILE: &str = "/etc/ld.so.cache";

/// The bytes of `ld.so.cache`, read once. Its format: glibc's sysdeps/generic/dl-cache.h, `struct cache_file_new`.
fn cache() -> io::Result<&'static [u8]> {
    static CACHE: Once<Vec<u8>> = Once::new();
    let cache = CACHE.get_or_try_init(|| match file::read(Path::new(CACHE_FILE)) {
        Ok(bytes) => Ok(bytes),
        // Without it names would not be found, now and later.
        Err(error) if is_refusal(&error) => Err(error),
        Err(_) => Ok(Vec::new()),
    });
    cache.map(Vec::as_slice)
}

const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;

/// The path of the first entry for `name`. A process asks for few names, so no table of all is made.
fn cached(bytes: &[u8], name: &str) -> Option<PathBuf> {
    // Systems older than glibc 2.32 put the old format before the new one.
    let start = match bytes.starts_with(CACHE_MAGIC) {
        true => 0,
        false => bytes.windows(CACHE_MAGIC.len()).position(|window| window == CACHE_MAGIC)?,
    };
    let cache = &bytes[start..];
    let word = |at: usize| {
        cache.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
    };
    let tail = |at: usize| cache.get(at..);
    for index in 0..word(20)? as usize {
        let entry = CACHE_HEADER + index * CACHE_ENTRY;
        let (flags, key, value) = (word(entry)?, word(entry + 4)?, word(entry + 8)?);
        let hardware = (word(entry + 16)?, word(entry + 20)?);
        // Variants for special hardware are left to the plain file that stands beside them.
        if flags != arch::CACHE_FLAGS || hardware != (0, 0) {
            continue;
        }
        let rest = tail(key as usize)?.strip_prefix(name.as_bytes());
        if rest.is_some_and(|rest| rest.first() == Some(&0)) {
            let path = tail(value as usize)?.split(|byte| *byte == 0).next()?;
            return Some(PathBuf::from(std::str::from_utf8(path).ok()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_without_a_requester() {
        let path = find("libc.so.6", &[]).unwrap();
        assert!(path.is_file());
    }

    #[test]
    fn origin_is_expanded_in_both_spellings() {
        let origin = Path::new("/opt/pkg");
        assert_eq!(expand("$ORIGIN/../lib", origin), Path::new("/opt/pkg/../lib"));
        assert_eq!(expand("${ORIGIN}/x", origin), Path::new("/opt/pkg/x"));
        let unknown = format!("/a/{}/$$x/${{ORIGIN", arch::LIB);
        assert_eq!(expand("/a/$LIB/$$x/${ORIGIN", origin).to_str(), Some(&*unknown));
    }

    #[test]
    fn a_missing_name_lists_where_it_was_looked_for() {
        let Err(Absence::Nowhere(searched)) = find("libdoes-not-exist.so.9", &[]) else { panic!() };
        assert!(searched.iter().any(|place| place.contains("cache")), "{searched:?}");
    }
}

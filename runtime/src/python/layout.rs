//! Where the parts of an installation lie in relation to each other.

use super::{Installation, Refusal};
use crate::embedded_payloads::SUPPORTED;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The metadata of a path, or `None` if the file does not exist.
pub(super) fn metadata(path: &Path) -> Result<Option<fs::Metadata>, Refusal> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Whether there is such a file.
pub(super) fn is_file(path: &Path) -> Result<bool, Refusal> {
    Ok(metadata(path)?.is_some_and(|metadata| metadata.is_file()))
}

fn unreadable(path: &Path, error: &io::Error) -> Refusal {
    Refusal::Unreadable(format!("{}: {error}", path.display()))
}

/// Whether the file's name is that of a libpython.
pub(super) fn names_library(path: &Path) -> bool {
    file_name(path).starts_with("libpython")
}

/// The installation that a `libpython3.X.so` belongs to.
pub(super) fn of_library(library: &Path) -> Result<Installation, Refusal> {
    let library = library.canonicalize().map_err(|error| unreadable(library, &error))?;
    let name = file_name(&library);
    let version = name
        .strip_prefix("libpython")
        .and_then(|rest| rest.split(".so").next())
        .unwrap_or_default();
    let minor = supported(version)?;
    machine(&library)?;
    let mut refusal =
        Refusal::NoStandardLibrary(PathBuf::from(format!("lib/python3.{minor}/os.py")));
    // An error above it is of interest only if the library is not found.
    let prefix = library.ancestors().skip(1).find(|prefix| {
        has_standard_library(prefix, minor).unwrap_or_else(|unreadable| {
            refusal = unreadable;
            false
        })
    });
    let prefix = prefix.map(Path::to_owned).ok_or(refusal)?;
    let executable =
        Some(prefix.join(format!("bin/python3.{minor}"))).filter(|path| path.is_file());
    Ok(Installation { library, minor, prefix, executable, venv: None, sealed: false })
}

/// The installation in a prefix: the newest one whose library is there.
pub(super) fn of_prefix(prefix: &Path) -> Result<Installation, Refusal> {
    all_of_prefix(prefix).swap_remove(0)
}

/// All installations in a prefix, the newest first, or one refusal. Distributions put every version into one prefix.
pub(super) fn all_of_prefix(prefix: &Path) -> Vec<Result<Installation, Refusal>> {
    let mut installed = Vec::new();
    for minor in (0..=u8::MAX).rev() {
        match has_standard_library(prefix, minor) {
            Ok(true) => installed.push(minor),
            Ok(false) => {}
            Err(refusal) => return vec![Err(refusal)],
        }
    }
    let mut refusal = match installed.first() {
        Some(minor) => Refusal::Version(format!("3.{minor}")),
        None if prefix.join("lib/python2.7/os.py").is_file() => Refusal::Version("2.7".to_owned()),
        None => Refusal::NotPython,
    };
    let mut verdicts = Vec::new();
    for minor in installed.into_iter().filter(|minor| SUPPORTED.contains(minor)) {
        match library_in(prefix, minor) {
            Ok(library) => verdicts.push(of_library(&library)),
            Err(missing) => refusal = missing,
        }
    }
    if verdicts.is_empty() {
        verdicts.push(Err(refusal));
    }
    verdicts
}

/// The installation that an executable belongs to, or `None` if its place and name do not tell.
pub(super) fn of_executable(executable: &Path) -> Option<Result<Installation, Refusal>> {
    let real = executable.canonicalize().ok()?;
    let version = file_name(&real).strip_prefix("python")?;
    let prefix = real.parent()?.parent()?;
    if !version.starts_with("3.") {
        return None;
    }
    let minor = match supported(version) {
        Ok(minor) => minor,
        Err(refusal) => return Some(Err(refusal)),
    };
    match has_standard_library(prefix, minor) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(refusal) => return Some(Err(refusal)),
    }
    // An executable that is linked statically may stand beside a library all the same (Debian).
    let library = match library_in(prefix, minor) {
        Ok(library) => library,
        Err(refusal) => return Some(Err(refusal)),
    };
    Some(of_library(&library))
}

/// Builds by the letter behind their version (PEP 3149, PEP 703).
const FLAVOURS: [(char, &str); 2] = [('t', "free-threaded"), ('d', "debug")];

/// The minor version, if this build serves it.
pub(super) fn supported(version: &str) -> Result<u8, Refusal> {
    let flavour = FLAVOURS.iter().find(|(letter, _)| version.ends_with(*letter));
    if let Some((_, flavour)) = flavour {
        return Err(Refusal::Flavour(flavour));
    }
    let mut numbers = version.trim_end_matches('m').split('.');
    let (major, minor) = (numbers.next(), numbers.next());
    match (major, minor.and_then(|minor| minor.parse().ok())) {
        (Some("3"), Some(minor)) if SUPPORTED.contains(&minor) => Ok(minor),
        // libpython3.so is the stable interface's stub and holds no interpreter.
        (Some("3"), None) => Err(Refusal::NotPython),
        _ => Err(Refusal::Version(version.to_owned())),
    }
}

/// The library of Python 3.`minor` under a prefix.
pub(super) fn library_in(prefix: &Path, minor: u8) -> Result<PathBuf, Refusal> {
    let directories = [
        prefix.join("lib"),
        prefix.join("lib64"),
        prefix.join(format!("lib/{}-linux-gnu", std::env::consts::ARCH)),
    ];
    for directory in &directories {
        for name in [format!("libpython3.{minor}.so.1.0"), format!("libpython3.{minor}.so")] {
            let library = directory.join(name);
            if is_file(&library)? {
                return Ok(library);
            }
        }
    }
    // A build with another binary interface has a letter behind its version.
    for (letter, flavour) in FLAVOURS {
        let name = format!("libpython3.{minor}{letter}.so");
        if directories.iter().any(|directory| directory.join(&name).exists()) {
            return Err(Refusal::Flavour(flavour));
        }
    }
    Err(Refusal::Static {
        name: format!("libpython3.{minor}.so"),
        searched: directories
            .iter()
            .filter(|directory| directory.is_dir())
            .map(|directory| directory.display().to_string())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Whether a prefix has the standard library, known by its landmark as CPython's getpath knows it.
fn has_standard_library(prefix: &Path, minor: u8) -> Result<bool, Refusal> {
    for lib in ["lib", "lib64"] {
        if is_file(&prefix.join(format!("{lib}/python3.{minor}/os.py")))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number of this machine's processor in ELF files (`e_machine`: gABI, and elf.h).
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = libc::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = libc::EM_AARCH64;

/// Checks that the file's header names this machine.
fn machine(library: &Path) -> Result<(), Refusal> {
    let file = fs::File::open(library).map_err(|error| unreadable(library, &error))?;
    let mut start = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, 20), &mut start)
        .map_err(|error| unreadable(library, &error))?;
    // Magic, 64 bits, the least significant byte first, and the machine's number.
    if start.starts_with(b"\x7fELF\x02\x01") && start.get(18..) == Some(&MACHINE.to_le_bytes()) {
        return Ok(());
    }
    Err(Refusal::Machine(
        "its first bytes differ from this program's in kind, word size or processor".to_owned(),
    ))
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{all_of_prefix, names_library, of_prefix, supported};
    use crate::embedded_payloads::SUPPORTED;
    use crate::python::{Installation, Refusal};
    use std::fs;
    use std::path::Path;

    #[test]
    fn versions_that_are_not_served_are_named() {
        assert_eq!(supported("3.12"), Ok(12));
        assert_eq!(supported("3.10"), Ok(10));
        assert_eq!(supported("3.9"), Err(Refusal::Version("3.9".to_owned())));
        assert_eq!(supported("2.7"), Err(Refusal::Version("2.7".to_owned())));
        assert_eq!(supported("3.6m"), Err(Refusal::Version("3.6m".to_owned())));
        assert_eq!(supported("3.13t"), Err(Refusal::Flavour("free-threaded")));
        assert_eq!(supported("3"), Err(Refusal::NotPython));
    }

    #[test]
    fn a_prefix_has_each_version_whose_library_is_there() {
        let place = tempfile::tempdir().unwrap();
        let prefix = place.path().canonicalize().unwrap();
        let (oldest, newest) = (*SUPPORTED.start(), *SUPPORTED.end());
        for minor in [oldest - 1, oldest, newest - 1, newest, newest + 1] {
            let library = prefix.join(format!("lib/python3.{minor}"));
            fs::create_dir_all(&library).unwrap();
            fs::write(library.join("os.py"), "").unwrap();
        }
        assert!(matches!(all_of_prefix(&prefix)[..], [Err(Refusal::Static { .. })]));
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        for minor in [oldest, newest - 1] {
            let library = prefix.join(format!("lib/libpython3.{minor}.so.1.0"));
            fs::write(library, &program[..64]).unwrap();
        }
        let found = all_of_prefix(&prefix);
        let versions: Vec<u8> = found.iter().flatten().map(Installation::minor).collect();
        assert_eq!(versions, [newest - 1, oldest]);
        assert_eq!(found.len(), 2);
        assert_eq!(of_prefix(&prefix).unwrap().minor(), newest - 1);
    }

    #[test]
    fn a_library_is_known_by_its_name() {
        assert!(names_library(Path::new("/opt/lib/libpython3.12.so.1.0")));
        assert!(!names_library(Path::new("/opt/bin/python3.12")));
    }
}

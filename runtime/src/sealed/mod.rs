//! Sealed applications: one executable file that carries its Python, with packages and native libraries, and reads nothing
//! else.
//!
//! The file is the program itself, built with the feature `embed`, with parts behind it. Native libraries are mapped from where
//! they lie in it, by all interpreters and processes alike; code is unmarshalled from the mapping. Paths in it begin with
//! [`ROOT`], and no path below that is looked for on a disk.
//!
//! `hydrozoa seal` makes such files (crate `hydrozoa-seal`). In a sealed program, everything that looks for a Python and is
//! told of none uses the one that it carries: [`Pool::builder`](crate::Pool::builder), [`CommandLine`](crate::CommandLine),
//! [`python::find`](crate::python::find).

mod header;
mod record;

use header::Header;
pub use record::EntryPoint;

use crate::adapters::OF_THE_MACHINE;
use crate::embedded_payloads;
use crate::{Error, Result};
use hydrozoa_loader::{Container, Enclosure, FileTable};
pub(crate) use record::{Part, Record};
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory of all paths in a sealed application.
pub const ROOT: &str = "/<sealed>";

/// The application that this program is, if it was sealed.
#[derive(Debug)]
pub struct Application {
    path: PathBuf,
    container: Container,
    record: Record,
}

/// The application that this program is; none if it was not sealed.
///
/// # Errors
///
/// [`Error::Sealed`] if the program's file is truncated or damaged.
pub fn application() -> Result<Option<&'static Application>> {
    static APPLICATION: OnceLock<Option<Result<Application, String>>> = OnceLock::new();
    let known = APPLICATION.get_or_init(|| {
        let header = header::of_this_program()?;
        Some(Application::open(&header).and_then(|application| {
            application.provide().map(|()| application).map_err(|error| error.to_string())
        }))
    });
    match known {
        None => Ok(None),
        Some(Ok(application)) => Ok(Some(application)),
        Some(Err(problem)) => {
            Err(Error::Sealed { application: own_path(), problem: problem.clone() })
        }
    }
}

/// The running program.
const OWN_FILE: &str = "/proc/self/exe";

fn own_path() -> PathBuf {
    env::current_exe().unwrap_or_else(|_| PathBuf::from(OWN_FILE))
}

/// Libraries of glibc and of the compiler, which belong to the machine: the start of each one's name.
const OF_GLIBC: [&str; 17] = [
    "ld-linux",
    "libBrokenLocale.so",
    "libanl.so",
    "libc.so",
    "libc_malloc_debug.so",
    "libdl.so",
    "libgcc_s.so",
    "libm.so",
    "libmvec.so",
    "libnsl.so.1",
    "libnss_",
    "libpthread.so",
    "libresolv.so",
    "librt.so",
    "libstdc++.so",
    "libthread_db.so",
    "libutil.so",
];

impl Application {
    fn open(header: &Header) -> Result<Application, String> {
        let container = Container::open(Path::new(OWN_FILE)).map_err(|error| error.to_string())?;
        let file = container.bytes();
        if file.len() as u64 != header.length {
            return Err(format!(
                "it has {} bytes, and {} when it was sealed: copy it again",
                file.len(),
                header.length
            ));
        }
        let at = |range: &Range<u64>| {
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).ok());
            file.get(start?..end?)
        };
        let text = at(&header.start).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let text = text.ok_or("it is damaged: it has no start record. Copy it again")?;
        let record = Record::parse(text, file.len())
            .map_err(|problem| format!("it is damaged: {problem}. Copy it again"))?;
        Ok(Application { path: own_path(), container, record })
    }

    /// Tells the loader of its libraries, and that they find nothing on the machine.
    fn provide(&self) -> Result<()> {
        for (path, range) in &self.record.libraries {
            hydrozoa_loader::provide_part(&below(path), &self.container, range.clone())?;
        }
        let is_path = |word: &&String| word.starts_with('/');
        let files = FileTable::new(&self.container, self.record.files.clone());
        let damaged = || Error::Sealed {
            application: self.path.clone(),
            problem: "it is damaged: it has no table of files. Copy it again".to_owned(),
        };
        hydrozoa_loader::enclose(Enclosure {
            root: ROOT.into(),
            libraries: below("lib"),
            machine: OF_GLIBC
                .iter()
                .chain(&OF_THE_MACHINE)
                .map(|name| (*name).to_owned())
                .collect(),
            absent: self.record.absent.clone(),
            allowed: self.record.allowed.iter().filter(is_path).map(PathBuf::from).collect(),
            files: Some(files.ok_or_else(damaged)?),
        })?;
        Ok(())
    }

    /// The program's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The second number of its Python's version: 12 for Python 3.12.
    pub fn minor(&self) -> u8 {
        self.record.minor
    }

    /// The use for which it was sealed.
    pub fn entry(&self) -> &EntryPoint {
        &self.record.entry
    }

    /// How many interpreters run the entry at once.
    pub fn copies(&self) -> usize {
        self.record.copies
    }

    /// The archives of packages in it, by paths below [`ROOT`].
    pub fn packages(&self) -> impl Iterator<Item = PathBuf> {
        self.record.packages.iter().map(|(path, _)| below(path))
    }

    /// The package at `path`.
    fn package(&self, path: &Path) -> Option<std::io::Result<FilePart>> {
        let mut packages = self.record.packages.iter();
        let (_, range) = packages.find(|(name, _)| below(name) == path)?;
        let part = |file| FilePart { file, start: range.start as u64, length: range.len() };
        Some(File::open(OWN_FILE).map(part))
    }

    /// Whether it may use this of the machine: `certs`, `zone`, `tmp`, or a path.
    pub fn allows(&self, word: &str) -> bool {
        self.record.allowed.iter().any(|allowed| allowed == word)
    }

    /// Whether the arguments are those with which a Python program starts another Python, as `subprocess` and
    /// `multiprocessing` do by `sys.executable`: they begin with an option of python's, and a process of this application
    /// has started this one, or one that descends from it ([`MARK`]).
    pub fn is_called_as_python(&self, arguments: &[OsString]) -> bool {
        let first = arguments.first().map(|word| word.as_encoded_bytes()).unwrap_or_default();
        let is_option = matches!(first, [b'-', letter, ..] if OPTIONS.contains(letter));
        is_option && (env::var_os(MARK).is_some() || is_own_child())
    }

    pub(crate) fn libpython(&self) -> PathBuf {
        below(&self.record.libpython)
    }

    /// The whole file.
    pub(crate) fn file(&self) -> &'static [u8] {
        self.container.bytes()
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    pub(crate) fn payload(&self) -> PathBuf {
        below(&self.record.payload)
    }
}

/// A part of an open file.
pub(crate) struct FilePart {
    pub(crate) file: File,
    pub(crate) start: u64,
    pub(crate) length: usize,
}

/// The package at `path` in the application that this program is.
pub(crate) fn package(path: &Path) -> Option<std::io::Result<FilePart>> {
    let inside = path.starts_with(ROOT);
    inside.then(|| application().ok().flatten()?.package(path)).flatten()
}

/// The container of the package at `path`, and where the package begins in it.
pub(crate) fn package_in(path: &Path) -> Option<(Container, usize)> {
    let application = path.starts_with(ROOT).then(|| application().ok().flatten()).flatten()?;
    let mut packages = application.record.packages.iter();
    let (_, range) = packages.find(|(name, _)| below(name) == path)?;
    Some((application.container.clone(), range.start))
}

/// An environment variable by which an application's children know that it has started them.
pub const MARK: &str = "HYDROZOA_SEALED";

/// The letters of python's options.
const OPTIONS: &[u8] = b"bBcdEhiImOPqsSuvVWxX";

/// Whether this process's parent runs this program too.
fn is_own_child() -> bool {
    let file = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    let parent = std::os::unix::process::parent_id().to_string();
    file("self").is_some_and(|own| file(&parent) == Some(own))
}

fn below(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

/// The finder's modules, each with its source, for the sealer.
#[doc(hidden)]
pub fn finder_sources() -> &'static [(&'static str, &'static str)] {
    &[
        ("_hydrozoa_sealed", include_str!("finder.py")),
        ("_hydrozoa_sealed_resources", include_str!("resources.py")),
    ]
}

/// The payload for Python 3.`minor`, for the sealer.
///
/// # Errors
///
/// [`Error::Payload`] if this build has none.
#[doc(hidden)]
pub fn payload(minor: u8) -> Result<&'static [u8]> {
    embedded_payloads::get(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_length_is_named_with_both_lengths() {
        let header =
            Header { length: 7, start: 0..1, manifest: 0..1, base: 7, digest: Default::default() };
        let problem = Application::open(&header).unwrap_err();
        let error = Error::Sealed { application: own_path(), problem };
        assert!(matches!(error, Error::Sealed { .. }));
        let text = error.to_string();
        assert!(text.starts_with(own_path().to_str().unwrap()), "{text}");
        assert!(text.ends_with("bytes, and 7 when it was sealed: copy it again"), "{text}");
    }
}

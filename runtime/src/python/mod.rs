//! Finding a Python, and the reason why a candidate is unusable.
//!
//! A usable Python is a shared library `libpython3.X.so` with its standard library beside it. The
//! search looks at files and layouts first. It runs an executable only if these do not decide, as with
//! a version manager's shim.

mod layout;
mod query;
mod venv;
mod version;

use crate::sealed::{self, Application};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::{env, fmt};
use version::Version;

/// A Python that can be hosted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    library: PathBuf,
    minor: u8,
    prefix: PathBuf,
    executable: Option<PathBuf>,
    venv: Option<PathBuf>,
    /// Whether it is the one that this program carries.
    sealed: bool,
}

impl Installation {
    /// Its `libpython3.X.so`.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The second number of its version: 12 for Python 3.12.
    pub fn minor(&self) -> u8 {
        self.minor
    }

    /// `sys.base_prefix`: the directory that `lib/python3.X` is in.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The later `sys.executable`: the virtual environment's python, else the installation's;
    /// `None` if the installation has no executable of its version.
    pub fn executable(&self) -> Option<&Path> {
        self.executable.as_deref()
    }

    /// The virtual environment, if one is used.
    pub fn venv(&self) -> Option<&Path> {
        self.venv.as_deref()
    }

    /// The directory of third-party packages. It need not exist.
    pub fn site_packages(&self) -> PathBuf {
        let prefix = self.venv.as_ref().unwrap_or(&self.prefix);
        prefix.join(format!("lib/python3.{}/site-packages", self.minor))
    }

    /// The Python that this program carries, if it was sealed.
    fn sealed() -> Result<Option<Self>> {
        Ok(sealed::application()?.map(|application| Self {
            library: application.libpython(),
            minor: application.minor(),
            prefix: PathBuf::from(sealed::ROOT),
            executable: Some(application.path().to_owned()),
            venv: None,
            sealed: true,
        }))
    }

    /// The application that carries it.
    pub(crate) fn application(&self) -> Option<&'static Application> {
        if self.sealed { sealed::application().ok().flatten() } else { None }
    }

    /// Its library's path without symbolic links, by which the loader knows it.
    pub(crate) fn library_file(&self) -> Option<PathBuf> {
        match self.sealed {
            true => Some(self.library.clone()),
            false => self.library.canonicalize().ok(),
        }
    }

    /// The name of that file.
    pub(crate) fn library_name(&self) -> Option<String> {
        let file = self.library_file()?;
        file.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// The same Python with the packages of a virtual environment.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] if `directory` is not a virtual environment, or one of another version.
    pub fn with_venv(mut self, directory: &Path) -> Result<Self> {
        let described = venv::read(directory).map_err(|refusal| {
            Error::Configuration(format!("{}: {refusal}", directory.display()))
        })?;
        if described.minor.is_some_and(|minor| minor != self.minor) {
            return Err(Error::Configuration(format!(
                "the virtual environment {} is one of Python 3.{}, and {} is Python 3.{}; \
                 name no Python, and the environment leads to its own",
                directory.display(),
                described.minor.unwrap_or_default(),
                self.library.display(),
                self.minor
            )));
        }
        // The base may be gone, since this Python takes its place. It may not be of another kind.
        let base = described.bases().find(|base| base.is_file());
        if let Some(Err(refusal @ Refusal::Flavour(_))) =
            base.as_deref().and_then(layout::of_executable)
        {
            return Err(Error::Configuration(format!(
                "the virtual environment {} was made with another kind of Python: {refusal}",
                directory.display()
            )));
        }
        self.executable = Some(described.executable);
        self.venv = Some(described.root);
        Ok(self)
    }
}

/// Where a candidate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The caller named it.
    Explicit,
    /// The environment variable `VIRTUAL_ENV`.
    ActiveVenv,
    /// `python3` in a directory of `PATH`.
    SearchPath,
    /// A version that pyenv has installed.
    Pyenv,
    /// A place where distributions put Python.
    System,
}

/// A file or directory that could be a usable Python.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// How it was found.
    pub origin: Origin,
    /// The file or directory that was looked at.
    pub path: PathBuf,
    /// The installation, or why it is unusable.
    pub verdict: Result<Installation, Refusal>,
}

/// Why a candidate is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The path does not exist.
    #[error("it does not exist; check the path")]
    Missing,
    /// The system does not let this process read it, or gives another reason against it.
    #[error("it cannot be read: {0}; let this user read it, or name another")]
    Unreadable(String),
    /// No usable Python on this machine has the named version.
    #[error(
        "no usable Python of this machine has this version; install it, or name one that there is: {0}"
    )]
    NotInstalled(String),
    /// This build does not serve the named version.
    #[error("Python {version} is not supported: this build serves 3.{low} to 3.{high}; this machine has {there}",
        low = crate::embedded_payloads::SUPPORTED.start(), high = crate::embedded_payloads::SUPPORTED.end())]
    NotServed {
        /// The version as it was named.
        version: String,
        /// The versions of the machine's usable Pythons, or "none".
        there: String,
    },
    /// Neither a library, nor an executable, nor a prefix, nor a virtual environment.
    #[error(
        "it is neither a libpython3.X.so, nor a python executable, nor the prefix of one, nor a virtual environment; \
         name one of these"
    )]
    NotPython,
    /// The version is not among those that this build serves.
    #[error("it is Python {0}; this build serves 3.{low} to 3.{high}; name one of these",
        low = crate::embedded_payloads::SUPPORTED.start(), high = crate::embedded_payloads::SUPPORTED.end())]
    Version(String),
    /// The installation has no shared library.
    #[error(
        "it is built without a shared library (no {name} in {searched}): build Python with \
         --enable-shared (pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared), or install the \
         distribution's libpython package"
    )]
    Static {
        /// The file that was looked for.
        name: String,
        /// The directories that were looked into.
        searched: String,
    },
    /// A free-threaded or debug build, which has another binary interface.
    #[error(
        "it is a {0} build, whose binary interface stock wheels are not made for; name the usual build"
    )]
    Flavour(&'static str),
    /// The file is for another kind of machine.
    #[error("it is not for this machine: {0}; install it again, or name another")]
    Machine(String),
    /// The standard library is not where it should be.
    #[error("its standard library is missing: no {} above it; install Python again", .0.display())]
    NoStandardLibrary(PathBuf),
    /// `pyvenv.cfg` names no Python that exists.
    #[error("its pyvenv.cfg {0}; make the environment again (python -m venv)")]
    BrokenVenv(String),
    /// The executable did not answer.
    #[error("it does not run: {0}; install it again, or name another")]
    DoesNotRun(String),
}

impl fmt::Display for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            Origin::Explicit => "as named",
            Origin::ActiveVenv => "active virtual environment",
            Origin::SearchPath => "on PATH",
            Origin::Pyenv => "of pyenv",
            Origin::System => "of the system",
        };
        write!(formatter, "{} ({origin}): ", self.path.display())?;
        match &self.verdict {
            Ok(found) => write!(formatter, "Python 3.{}, {}", found.minor, found.library.display()),
            Err(refusal) => refusal.fmt(formatter),
        }
    }
}

/// All candidates on this machine, best first, each with its installation or the reason against it. A prefix of the
/// system may hold several versions; each is a candidate.
///
/// If several candidates lead to the same library and virtual environment, only the first is listed.
pub fn discover() -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for (origin, path) in places() {
        let verdicts = match origin {
            Origin::System => layout::all_of_prefix(&path),
            _ => vec![resolve(&path)],
        };
        for verdict in verdicts {
            let repeats = |earlier: &Candidate| match (&earlier.verdict, &verdict) {
                (Ok(one), Ok(other)) => one.library == other.library && one.venv == other.venv,
                _ => earlier.path == path,
            };
            if !candidates.iter().any(repeats) {
                candidates.push(Candidate { origin, path: path.clone(), verdict });
            }
        }
    }
    candidates
}

/// The installation at `path`, which is a libpython, a python executable, the prefix of an installation
/// or a virtual environment; or the reason why `path` is refused.
pub fn examine(path: &Path) -> Candidate {
    Candidate { origin: Origin::Explicit, path: path.to_owned(), verdict: resolve(path) }
}

/// The Python to use: the named one, or the best that [`discover`] finds.
///
/// A [sealed] program that names none uses the Python that it carries.
///
/// A name is a path, as for [`examine`]; else a version, such as `3.12` or `3.12.4`, for the best Python of
/// that version, `python3.12` on PATH before others; or the name of an executable on PATH.
///
/// # Errors
///
/// [`Error::PythonNotFound`] with the reason for each candidate, and [`Error::Sealed`].
pub fn find(named: Option<&Path>) -> Result<Installation> {
    if named.is_none()
        && let Some(own) = Installation::sealed()?
    {
        return Ok(own);
    }
    let candidates = match named {
        Some(path) => named_so(path),
        None => discover(),
    };
    candidates
        .iter()
        .find_map(|candidate| candidate.verdict.clone().ok())
        .ok_or(Error::PythonNotFound { candidates })
}

/// The candidates for a name.
fn named_so(name: &Path) -> Vec<Candidate> {
    // The usual case: it is a path.
    if name.exists() || name.components().count() > 1 {
        return vec![examine(name)];
    }
    if let Some(version) = name.to_str().and_then(Version::parse) {
        return version.candidates(name);
    }
    let on_path = on_path(name).next();
    vec![on_path.map_or_else(|| examine(name), |executable| examine(&executable))]
}

/// The files of that name in the directories of `PATH`.
fn on_path(name: &Path) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    let name = name.to_owned();
    directories.into_iter().map(move |directory| directory.join(&name)).filter(|file| file.exists())
}

/// The Python to use, with the packages of a virtual environment if one is given: the named one, or the
/// one that the environment was made from, or the best that [`discover`] finds.
///
/// # Errors
///
/// As [`find`] and [`Installation::with_venv`].
pub fn choose(named: Option<&Path>, venv: Option<&Path>) -> Result<Installation> {
    match (named, venv) {
        (_, Some(venv)) if !venv.exists() => Err(Error::Configuration(format!(
            "the virtual environment {0} does not exist; check the path, or make it with `python3 -m venv {0}`",
            venv.display()
        ))),
        (Some(named), Some(venv)) => find(Some(named))?.with_venv(venv),
        (named, venv) => find(named.or(venv)),
    }
}

/// Prefixes where distributions put Python.
const SYSTEM: [&str; 2] = ["/usr/local", "/usr"];

/// Where to look, in the order of preference.
fn places() -> Vec<(Origin, PathBuf)> {
    let mut places = Vec::new();
    if let Some(venv) = env::var_os("VIRTUAL_ENV") {
        places.push((Origin::ActiveVenv, PathBuf::from(venv)));
    }
    places.extend(on_path(Path::new("python3")).map(|python| (Origin::SearchPath, python)));
    let pyenv = env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    if let Some(root) = pyenv {
        let mut versions: Vec<PathBuf> = std::fs::read_dir(root.join("versions"))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        // Newest first; the names are versions, and 3.9 sorts before 3.10 by its numbers.
        versions.sort_by_cached_key(|path| std::cmp::Reverse(numbers(path)));
        places.extend(versions.into_iter().map(|path| (Origin::Pyenv, path)));
    }
    for prefix in SYSTEM {
        places.push((Origin::System, PathBuf::from(prefix)));
    }
    places
}

fn numbers(path: &Path) -> Vec<u32> {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .split('.')
        .map_while(|number| number.parse().ok())
        .collect()
}

/// Tells whether `path` is a library, a virtual environment, a prefix or an executable, and finds the installation.
fn resolve(path: &Path) -> Result<Installation, Refusal> {
    let found = layout::metadata(path)?.ok_or(Refusal::Missing)?;
    if found.is_dir() {
        if layout::is_file(&path.join("pyvenv.cfg"))? {
            return in_venv(path);
        }
        return layout::of_prefix(path);
    }
    if !found.is_file() {
        return Err(Refusal::NotPython);
    }
    if layout::names_library(path) {
        return layout::of_library(path);
    }
    // A virtual environment's python is a link to another one's: look before following it.
    if let Some(directory) = path.parent().and_then(Path::parent)
        && directory.join("pyvenv.cfg").is_file()
    {
        return in_venv(directory);
    }
    match layout::of_executable(path) {
        Some(verdict) => verdict,
        None => query::run(path),
    }
}

fn in_venv(directory: &Path) -> Result<Installation, Refusal> {
    let described = venv::read(directory)?;
    let base = described.bases().find(|base| base.is_file()).ok_or_else(|| {
        Refusal::BrokenVenv(format!(
            "names {} as its home, which holds no python",
            described.home.display()
        ))
    })?;
    let base = match layout::of_executable(&base) {
        Some(verdict) => verdict?,
        None => query::run(&base)?,
    };
    Ok(Installation { executable: Some(described.executable), venv: Some(described.root), ..base })
}

//! Virtual environments: PEP 405's `pyvenv.cfg`.

use super::Refusal;
use std::fs;
use std::path::{self, Path, PathBuf};

/// The contents of a `pyvenv.cfg`.
pub(super) struct Described {
    /// Its folder. Python makes it absolute too, and `site` compares it with `sys.prefix` from 3.14 on.
    pub(super) root: PathBuf,
    /// Its own python.
    pub(super) executable: PathBuf,
    /// `home`: the directory of the python that it was made with.
    pub(super) home: PathBuf,
    /// The second number of its version. Not every tool writes it.
    pub(super) minor: Option<u8>,
    /// The python that it was made with, by its own name.
    named: Option<PathBuf>,
}

impl Described {
    /// The possible names of the python that it was made with, best first.
    ///
    /// `home` may hold several, such as a debug build beside the usual one. Which of them it was, its own python says
    /// if that is a link, and a line of the file otherwise.
    pub(super) fn bases(&self) -> impl Iterator<Item = PathBuf> {
        let linked = self.executable.is_symlink().then(|| self.executable.canonicalize().ok());
        let own = linked.flatten().or_else(|| self.named.clone());
        let exact = self.minor.map(|minor| format!("python3.{minor}"));
        let in_home = exact
            .into_iter()
            .chain(["python3".to_owned(), "python".to_owned()])
            .map(|name| self.home.join(name));
        own.into_iter().chain(in_home)
    }
}

/// Reads `directory/pyvenv.cfg`.
pub(super) fn read(directory: &Path) -> Result<Described, Refusal> {
    let text = fs::read_to_string(directory.join("pyvenv.cfg"))
        .map_err(|error| Refusal::BrokenVenv(format!("cannot be read: {error}")))?;
    let value = |wanted: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            key.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
        })
    };
    let home =
        value("home").ok_or_else(|| Refusal::BrokenVenv("has no line `home = ...`".to_owned()))?;
    // `version` is venv's word, `version_info` virtualenv's and uv's.
    let minor = value("version")
        .or_else(|| value("version_info"))
        .and_then(|version| version.split('.').nth(1)?.parse().ok());
    // `executable` is venv's word since 3.11, `base-executable` virtualenv's.
    let named = value("executable").or_else(|| value("base-executable")).map(PathBuf::from);
    let root = path::absolute(directory)
        .map_err(|error| Refusal::BrokenVenv(format!("has no absolute path: {error}")))?;
    let executable = root.join("bin/python");
    Ok(Described { root, executable, home: PathBuf::from(home), minor, named })
}

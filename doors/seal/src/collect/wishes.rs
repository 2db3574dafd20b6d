//! The choice of what a sealed file takes along.

use super::patterns::Patterns;
use std::path::PathBuf;

/// The caller's choice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// A virtual environment whose packages are taken.
    pub(crate) venv: Option<PathBuf>,
    /// Requirements that are installed for the file.
    pub(crate) packages: Vec<String>,
    /// A file that runs as the program.
    pub(crate) script: Option<PathBuf>,
    /// Directories of the application's own modules and files.
    pub(crate) directories: Vec<PathBuf>,
    /// Archives of torch.package.
    pub(crate) archives: Vec<PathBuf>,
    /// `MODULE:FUNCTION`, which runs.
    pub(crate) entry: Option<String>,
    /// Parts of the standard library to take although they stay out by default.
    pub(crate) keep: Patterns,
    /// Files to leave out.
    pub(crate) without: Patterns,
    /// Whether the compiler's libraries are carried too.
    pub(crate) carries_cxx: bool,
    /// Whether sources stay out.
    pub(crate) omits_sources: bool,
}

impl Wishes {
    /// Whether a pattern leaves the file or directory out. Patterns count from the directory that is taken along, such as
    /// `site-packages`, or from the root of the sealed file.
    pub(super) fn leave_out(&self, prefix: &str, name: &str) -> bool {
        self.without.cover(name) || self.without.cover(&format!("{prefix}/{name}"))
    }
}

//! Where an interpreter of an installation finds a package.

use super::Installation;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prints the folder of the package that the first argument names. The other arguments precede `sys.path`.
///
/// `find_spec` imports nothing of a package that has no parent. A namespace package has no origin.
const QUESTION: &str = "\
import sys, os, importlib.util
sys.path[:0] = sys.argv[2:]
spec = importlib.util.find_spec(sys.argv[1])
origin = spec.origin if spec and spec.has_location else ''
sys.stdout.buffer.write(b'\\n' + os.fsencode(os.path.dirname(origin)))
";

/// How interpreters search for packages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Search<'a> {
    /// As those of a pool do: these directories come first, and environment variables and the user's own packages
    /// do not count.
    Pool(&'a [PathBuf]),
    /// As a python command does.
    Command,
}

impl Installation {
    /// The folder of the package `name`, or `None` if an interpreter would not find it.
    ///
    /// The installation's own executable answers, since files in site-packages (`.pth`, `sitecustomize`) may extend
    /// the search. If there is no executable, or it does not run, the package is looked for in
    /// [`Installation::site_packages`].
    pub(crate) fn package(&self, name: &str, search: Search<'_>) -> Option<PathBuf> {
        match self.executable().and_then(|executable| ask(executable, name, search)) {
            Some(answer) => Some(answer).filter(|folder| !folder.as_os_str().is_empty()),
            None => {
                let folder = self.site_packages().join(name);
                folder.join("__init__.py").is_file().then_some(folder)
            }
        }
    }
}

/// The answer of `executable`: an empty path if there is no such package; `None` without an answer.
fn ask(executable: &Path, name: &str, search: Search<'_>) -> Option<PathBuf> {
    let mut command = Command::new(executable);
    let paths = match search {
        Search::Pool(paths) => {
            command.arg("-I");
            paths
        }
        Search::Command => &[],
    };
    let output = command
        .args(["-c", QUESTION, name])
        .args(paths)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    // Code that runs at the start of Python may print something.
    let answer = output.stdout.rsplit(|byte| *byte == b'\n').next()?;
    output.status.success().then(|| PathBuf::from(OsStr::from_bytes(answer)))
}

//! Asks an executable for its installation: the last resort, for shims and unusual layouts.

use super::{Installation, Refusal, layout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// One value a line: version, flags of the build, prefix, and where the library should be.
const QUESTION: &str = "\
import sys, sysconfig
v = sysconfig.get_config_var
print('%d.%d%s' % (*sys.version_info[:2], getattr(sys, 'abiflags', '')))
print(sys.base_prefix)
print(v('LIBDIR') or '')
print(v('INSTSONAME') or '')
print(v('MULTIARCH') or '')
print(sys.implementation.name)
";

/// The third number of the version of `executable`, if it runs.
pub(super) fn patch(executable: &Path) -> Option<u32> {
    let question = ["-I", "-S", "-c", "import sys; print(sys.version_info.micro)"];
    let asked = Command::new(executable).args(question).stdin(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&asked.stdout).trim().parse().ok()
}

/// Runs `executable` with [`QUESTION`].
pub(super) fn run(executable: &Path) -> Result<Installation, Refusal> {
    let output = ask(executable, &["-I", "-S", "-c", QUESTION])?;
    if !output.status.success() {
        return Err(refusal(executable, &output));
    }
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = answer.lines().collect();
    let [version, prefix, directory, name, triple, implementation] = lines[..] else {
        return Err(Refusal::NotPython);
    };
    if implementation != "cpython" {
        return Err(Refusal::Flavour("non-CPython"));
    }
    let minor = layout::supported(version)?;
    let prefix = Path::new(prefix);
    // In a build without a shared library INSTSONAME is the static archive's name.
    let named =
        [PathBuf::from(directory).join(name), PathBuf::from(directory).join(triple).join(name)]
            .into_iter()
            .find(|library| name.contains(".so") && library.is_file());
    match named {
        Some(library) => layout::of_library(&library),
        None => layout::of_library(&layout::library_in(prefix, minor)?),
    }
}

fn ask(executable: &Path, question: &[&str]) -> Result<Output, Refusal> {
    // Command looks on PATH for a name without a slash.
    let path = std::path::absolute(executable).unwrap_or_else(|_| executable.to_owned());
    Command::new(path).args(question).stdin(Stdio::null()).output().map_err(|error| {
        match error.raw_os_error() {
            // A text, such as a program in Python.
            Some(libc::EACCES | libc::ENOEXEC) => Refusal::NotPython,
            _ => Refusal::DoesNotRun(error.to_string()),
        }
    })
}

/// Why `executable` has not answered [`QUESTION`]: Python 2 does not know `-I`, and other programs may not know any of it.
/// They quote the question in their complaints.
fn refusal(executable: &Path, failed: &Output) -> Refusal {
    let version = match ask(executable, &["--version"]) {
        Ok(version) => version,
        Err(refusal) => return refusal,
    };
    if !version.status.success() {
        let reason = last_line(&version).unwrap_or_else(|| version.status.to_string());
        return Refusal::DoesNotRun(reason);
    }
    // Python 2 prints it to standard error.
    let said = [&version.stdout[..], &version.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    match said.trim().strip_prefix("Python ").map(layout::supported) {
        Some(Ok(_)) => {
            Refusal::DoesNotRun(last_line(failed).unwrap_or_else(|| failed.status.to_string()))
        }
        Some(Err(refusal)) => refusal,
        None => Refusal::NotPython,
    }
}

fn last_line(output: &Output) -> Option<String> {
    String::from_utf8_lossy(&output.stderr).lines().last().map(str::to_owned)
}

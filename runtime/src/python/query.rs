//! Asks an executable for its installation: the last resort, for shims and unusual layouts.

use super::{Installation, Refusal, layout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    let output = Command::new(executable)
        .args(["-I", "-S", "-c", QUESTION])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Refusal::DoesNotRun(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Refusal::DoesNotRun(said.lines().last().unwrap_or("it failed").to_owned()));
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
    // INSTSONAME is the static archive's name where there is no shared library.
    let named =
        [PathBuf::from(directory).join(name), PathBuf::from(directory).join(triple).join(name)]
            .into_iter()
            .find(|library| name.contains(".so") && library.is_file());
    match named {
        Some(library) => layout::of_library(&library),
        None => layout::of_library(&layout::library_in(prefix, minor)?),
    }
}

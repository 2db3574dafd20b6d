//! Finds a CPython with a shared library, and reports why it refused a candidate.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Result, bail};

/// The minor versions that Hydrozoa serves (`VERSIONS` in runtime/build.rs), in order of preference. `xtask/locks` has a
/// file for each.
pub const MINORS: [u8; 6] = [11, 12, 13, 10, 14, 15];

/// An interpreter whose build has a shared libpython.
#[derive(Debug, Clone)]
pub struct Python {
    /// The minor version: 11 for CPython 3.11.
    pub minor: u8,
    /// The executable.
    pub executable: PathBuf,
}

/// The CPython that a task was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The best one of this minor version.
    Minor(u8),
    /// This executable, or that of this prefix or virtual environment.
    Path(PathBuf),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Path(PathBuf::from(text)));
        }
        let minor = text.strip_prefix("3.").and_then(|minor| minor.parse().ok());
        let minor = minor.filter(|minor| MINORS.contains(minor));
        minor.map(Self::Minor).ok_or_else(|| {
            let versions = versions(&sorted());
            format!("one of {versions}, or a path with a slash: an executable, a prefix or a virtual environment")
        })
    }
}

impl Wanted {
    /// The versions that it may be, and the executables to try of each.
    fn candidates(&self) -> Vec<(Option<u8>, PathBuf)> {
        match self {
            Self::Minor(minor) => {
                candidates(*minor).into_iter().map(|path| (Some(*minor), path)).collect()
            }
            Self::Path(path) if path.is_dir() => {
                let names = MINORS.map(|minor| format!("python3.{minor}")).into_iter();
                let names = names.chain(["python3".to_owned(), "python".to_owned()]);
                let named = names.map(|name| path.join("bin").join(name));
                named.filter(|executable| executable.exists()).map(|found| (None, found)).collect()
            }
            Self::Path(path) => vec![(None, path.clone())],
        }
    }
}

/// The first CPython that fits, or the first of [`MINORS`], that has a shared library.
pub fn find(wanted: Option<&Wanted>) -> Result<Python> {
    let all: Vec<Wanted> = match wanted {
        Some(wanted) => vec![wanted.clone()],
        None => MINORS.map(Wanted::Minor).to_vec(),
    };
    let mut refused = Vec::new();
    for (minor, executable) in all.iter().flat_map(Wanted::candidates) {
        match verdict(&executable, minor) {
            Ok(minor) => return Ok(Python { minor, executable }),
            Err(reason) => refused.push(format!("  {}: {reason}", executable.display())),
        }
    }
    let seen = if refused.is_empty() { "  none was found".to_owned() } else { refused.join("\n") };
    let (what, example) = match wanted {
        Some(Wanted::Minor(minor)) => (format!("CPython 3.{minor}"), *minor),
        Some(Wanted::Path(path)) => (format!("CPython at {}", path.display()), MINORS[0]),
        None => (format!("CPython {}", versions(&sorted())), MINORS[0]),
    };
    bail!(
        "no {what} with a shared library:\n{seen}\n\
         install one, for example: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install 3.{example}"
    )
}

/// [`MINORS`], the oldest first.
pub fn sorted() -> Vec<u8> {
    let mut minors = MINORS.to_vec();
    minors.sort_unstable();
    minors
}

/// `3.10, 3.11 and 3.12`.
pub fn versions(minors: &[u8]) -> String {
    let names: Vec<String> = minors.iter().map(|minor| format!("3.{minor}")).collect();
    match names.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

/// The versions of pyenv, newest patch first, then the interpreters on PATH.
fn candidates(minor: u8) -> Vec<PathBuf> {
    let name = format!("python3.{minor}");
    let pyenv = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let mut versions: Vec<(u32, PathBuf)> = pyenv
        .and_then(|root| std::fs::read_dir(root.join("versions")).ok())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let patch =
                entry.file_name().to_str()?.strip_prefix(&format!("3.{minor}."))?.parse().ok()?;
            Some((patch, entry.path().join("bin").join(&name)))
        })
        .collect();
    versions.sort_by_key(|(patch, _)| std::cmp::Reverse(*patch));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // pyenv's shims run the version that a folder selects, not the version in their name.
    let on_path = std::env::split_paths(&path)
        .filter(|folder| !folder.ends_with("shims"))
        .map(|folder| folder.join(&name));
    let mut found: Vec<PathBuf> =
        versions.into_iter().map(|(_, path)| path).chain(on_path).collect();
    found.retain(|path| path.exists());
    found.dedup();
    found
}

/// The minor version of an executable that can be used and is of the wanted version, or the reason against it.
fn verdict(executable: &Path, wanted: Option<u8>) -> Result<u8, String> {
    // INSTSONAME is the library's file name and LIBDIR its folder (CPython, Makefile.pre.in). A free-threaded build has a
    // binary interface of its own (PEP 703).
    let program = "import os, sys, sysconfig, venv, ensurepip\n\
                   v = sysconfig.get_config_var\n\
                   path = os.path.join(v('LIBDIR') or '', v('INSTSONAME') or '')\n\
                   print(sys.implementation.name, sys.version_info[1], v('Py_ENABLE_SHARED') or 0, os.path.isfile(path), \
                   sys.abiflags or '-')";
    let output = Command::new(executable)
        .args(["-I", "-c", program])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(message.lines().last().unwrap_or("it does not run").to_owned());
    }
    match String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>()[..] {
        ["cpython", found, shared, exists, flags] => {
            let minor = found.parse().ok().filter(|minor| MINORS.contains(minor));
            match minor.filter(|minor| wanted.is_none_or(|wanted| wanted == *minor)) {
                None => Err(format!("it is CPython 3.{found}")),
                Some(_) if flags != "-" => Err(format!("it is a build with the ABI flag {flags}")),
                Some(_) if shared != "1" => Err("built without --enable-shared".to_owned()),
                Some(_) if exists != "True" => Err("its shared library is missing".to_owned()),
                Some(minor) => Ok(minor),
            }
        }
        _ => Err("it is not CPython".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_runtime_s_build_script() {
        let script = include_str!("../../../runtime/build.rs");
        let list = sorted().iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        assert!(script.contains(&format!("= [{list}];")), "runtime/build.rs has other versions");
    }

    #[test]
    fn a_python_is_wanted_by_version_or_by_path() {
        assert_eq!("3.14".parse(), Ok(Wanted::Minor(14)));
        assert_eq!("./3.14".parse(), Ok(Wanted::Path("./3.14".into())));
        for other in ["3.9", "3", "3.x", "python3.12"] {
            let error = other.parse::<Wanted>().expect_err(other);
            assert!(error.contains("3.10, 3.11") && error.contains(" and 3.15"), "{error}");
        }
        assert_eq!(versions(&[]), "none");
        assert_eq!(versions(&[10]), "3.10");
    }

    #[test]
    fn a_path_that_is_no_python_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let find =
            |path: &Path| format!("{:#}", find(Some(&Wanted::Path(path.into()))).unwrap_err());
        assert!(find(folder.path()).contains("none was found"));
        assert!(find(&folder.path().join("absent")).contains("No such file"));
        assert!(find(Path::new("/bin/true")).contains("it is not CPython"));
    }

    #[test]
    fn a_path_leads_to_the_executable_that_its_version_leads_to() {
        let found = find(None).expect("the tests need a CPython");
        for path in [found.executable.clone(), found.executable.ancestors().nth(2).unwrap().into()]
        {
            let again = find(Some(&Wanted::Path(path))).expect("it was found by its version");
            assert_eq!(again.executable, found.executable);
        }
    }
}

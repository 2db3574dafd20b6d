//! The directories of packages that a virtual environment uses.

use super::error::CollectError;
use hydrozoa::python::Installation;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment's own directory, and those of its Python if the environment uses the system's packages too. Each has the text
/// that tells its place in the sealed file from the first one's.
pub(super) fn of_venv(
    installation: &Installation,
    venv: &Path,
) -> Result<Vec<(PathBuf, String)>, CollectError> {
    let mut sites = vec![(installation.site_packages(), String::new())];
    let file = venv.join("pyvenv.cfg");
    let settings = fs::read_to_string(&file).map_err(CollectError::read(&file))?;
    if uses_system(&settings) {
        let of_system = of_prefix(installation.prefix(), installation.minor());
        let found = of_system.into_iter().filter(|directory| directory.is_dir());
        sites.extend(
            found.zip(1..).map(|(directory, number)| (directory, format!("-system-{number}"))),
        );
    }
    Ok(sites)
}

/// Whether `pyvenv.cfg` has `include-system-site-packages = true` (Lib/site.py, venv).
fn uses_system(settings: &str) -> bool {
    settings.lines().filter_map(|line| line.split_once('=')).any(|(key, value)| {
        key.trim().eq_ignore_ascii_case("include-system-site-packages")
            && value.trim().eq_ignore_ascii_case("true")
    })
}

/// The directories of packages of an installation, in the order of `sys.path`. Debian has others than everybody else.
fn of_prefix(prefix: &Path, minor: u8) -> Vec<PathBuf> {
    let own = format!("lib/python3.{minor}");
    let mut directories = vec![prefix.join(&own).join("site-packages")];
    if prefix == Path::new("/usr") {
        directories.push(Path::new("/usr/local").join(own).join("dist-packages"));
        directories.push(prefix.join("lib/python3/dist-packages"));
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_setting_that_is_true_adds_the_packages_of_the_system() {
        assert!(uses_system("home = /usr/bin\nInclude-System-Site-Packages = True\n"));
        assert!(!uses_system("home = /usr/bin\ninclude-system-site-packages = false\n"));
        assert!(!uses_system("home = include-system-site-packages\n"));
    }

    #[test]
    fn debians_directories_count_for_its_own_python_only() {
        let names = |prefix: &str| of_prefix(Path::new(prefix), 12);
        assert_eq!(names("/opt/python"), [Path::new("/opt/python/lib/python3.12/site-packages")]);
        assert!(names("/usr").contains(&PathBuf::from("/usr/lib/python3/dist-packages")));
    }
}

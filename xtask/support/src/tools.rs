//! Programs of the system that a machine may lack.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Requirements of the C interface's tests beside a C and a C++ compiler: programs, and Debian's packages with them.
pub const C_INTERFACE: [(&str, &str); 2] = [("valgrind", "valgrind"), ("pkg-config", "pkgconf")];

/// The allocators that the tests of environments preload.
pub const ALLOCATORS: [(&str, &str); 3] = [
    ("libjemalloc.so.2", "libjemalloc2"),
    ("libmimalloc.so.2", "libmimalloc2.0"),
    ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
];

/// Installs the packages of those programs and libraries that are not there, where the system is Debian's and the user may.
///
/// # Errors
///
/// A program is missing afterwards. The message says what to install.
pub fn install(programs: &[(&str, &str)]) -> Result<()> {
    let Some(packages) = lacking(programs) else { return Ok(()) };
    let packages = packages.join(" ");
    // The files of a process are its user's (proc(5)).
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if is_root && is_there("apt-get") {
        println!("this machine lacks {packages}: apt-get installs it");
        let command = format!(
            "apt-get update -qq && apt-get install -y -qq --no-install-recommends {packages}"
        );
        let status = Command::new("sh")
            .args(["-c", &command])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()?;
        if !status.success() {
            println!("apt-get failed: {status}");
        }
    }
    match lacking(programs) {
        None => Ok(()),
        Some(packages) => {
            bail!("this machine lacks programs: `apt-get install {}`", packages.join(" "))
        }
    }
}

/// Runs a command that shall succeed.
///
/// # Errors
///
/// It cannot be started, or fails.
pub fn succeeds(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("starting {:?}", command.get_program()))?;
    ensure!(status.success(), "{:?} ended with {status}", command.get_program());
    Ok(())
}

/// The packages of the programs that are not there, if there are any.
fn lacking<'p>(programs: &[(&str, &'p str)]) -> Option<Vec<&'p str>> {
    let packages: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    (!packages.is_empty()).then_some(packages)
}

fn is_there(program: &str) -> bool {
    if program.contains(".so.") {
        let known = Command::new("ldconfig").arg("-p").output();
        return known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains(program));
    }
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed_and_what_is_not_is_named() {
        assert_eq!(lacking(&[("sh", "dash")]), None);
        let programs = [("sh", "dash"), ("no-such-program", "no-such-package")];
        assert_eq!(lacking(&programs), Some(vec!["no-such-package"]));
    }
}

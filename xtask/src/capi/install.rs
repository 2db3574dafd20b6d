//! `cargo xtask install`: the C interface in a prefix, as other libraries are installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// Options of `cargo xtask install`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder that gets `include` and `lib`, such as /usr/local
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Where the files are put instead, as by a packager; hydrozoa.pc names the prefix
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// A build with debug assertions, for tests
    #[arg(long)]
    dev: bool,
    /// Take the libraries from this folder instead of building them
    #[arg(long, value_name = "DIR", conflicts_with = "dev")]
    built: Option<PathBuf>,
}

/// The name that programs record. doors/c/build.rs gives it to the library.
const SONAME: &str = "libhydrozoa.so.0";

/// The system's libraries that Rust's standard library needs (`rustc --print native-static-libs`).
const PRIVATE: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

pub fn run(arguments: &Arguments) -> Result<()> {
    let prefix = std::path::absolute(&arguments.prefix)?;
    let root = match &arguments.destdir {
        Some(folder) => folder.join(prefix.strip_prefix("/").unwrap_or(&prefix)),
        None => prefix.clone(),
    };
    let built = match &arguments.built {
        Some(folder) => folder.clone(),
        None => build(arguments.dev)?,
    };
    let (shared, archive) = (&*built.join("libhydrozoa.so"), &*built.join("libhydrozoa.a"));
    let prefix = prefix.to_str().context("pkg-config takes paths of UTF-8")?;
    let description = put_all(&Libraries { shared, archive }, &root, prefix)?;
    println!("{} describes the installation", description.display());
    Ok(())
}

/// The built libraries.
pub struct Libraries<'a> {
    pub shared: &'a Path,
    pub archive: &'a Path,
}

/// Puts libraries, headers and the file of pkg-config into a folder, which programs will know as `prefix`. Returns the path of that file.
pub fn put_all(libraries: &Libraries<'_>, root: &Path, prefix: &str) -> Result<PathBuf> {
    let (include, lib) = (root.join("include"), root.join("lib"));
    fs::create_dir_all(&include).with_context(|| format!("making {}", include.display()))?;
    fs::create_dir_all(lib.join("pkgconfig"))?;
    let version = env!("CARGO_PKG_VERSION");
    let versioned = format!("libhydrozoa.so.{version}");
    put(libraries.shared, &lib.join(&versioned))?;
    link(&versioned, &lib.join(SONAME))?;
    link(SONAME, &lib.join("libhydrozoa.so"))?;
    put(libraries.archive, &lib.join("libhydrozoa.a"))?;

    let headers = workspace::root().join("doors/c/include");
    for name in ["hydrozoa.h", "hydrozoa_values.h", "hydrozoa_dlpack.h", "hydrozoa.hpp"] {
        put(&headers.join(name), &include.join(name))?;
    }
    let description = lib.join("pkgconfig/hydrozoa.pc");
    fs::write(&description, pkg_config(prefix, version)?)?;
    Ok(description)
}

/// Builds the libraries and returns their folder.
fn build(dev: bool) -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["build", "--quiet", "--lib", "--package", "hydrozoa-capi"]);
    if !dev {
        command.arg("--release");
    }
    let status = command.status().context("starting cargo")?;
    ensure!(status.success(), "cargo cannot build the C interface: {status}");
    Ok(workspace::target()?.join(if dev { "debug" } else { "release" }))
}

/// A file in the place of another one. Programs that run the other one keep it.
fn put(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    fs::copy(from, to)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn link(to: &str, at: &Path) -> Result<()> {
    remove(at)?;
    symlink(to, at).with_context(|| format!("making the link {}", at.display()))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("replacing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The text of hydrozoa.pc.
fn pkg_config(prefix: &str, version: &str) -> Result<String> {
    if prefix.contains(char::is_whitespace) {
        bail!("{prefix:?} has a blank, which pkg-config would take for the end of the path");
    }
    Ok(format!(
        "prefix={prefix}\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\nName: hydrozoa\n\
         Description: Many complete CPython interpreters in one process\nVersion: {version}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -lhydrozoa\nLibs.private: {PRIVATE}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::pkg_config;

    #[test]
    fn a_prefix_that_pkg_config_cannot_name_is_refused() {
        let text = pkg_config("/opt/hydrozoa", "1.2.3").unwrap();
        assert!(text.starts_with("prefix=/opt/hydrozoa\n") && text.contains("\nVersion: 1.2.3\n"));
        let error = pkg_config("/opt/a b", "1.2.3").unwrap_err().to_string();
        assert!(error.contains("has a blank"), "{error}");
    }
}

//! Builds small shared objects with the system's compiler, in a directory of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use hydrozoa_loader::{Domain, Library, OpenFlags, Result};

/// A directory that is removed with the value.
pub struct Workshop {
    directory: PathBuf,
}

impl Workshop {
    /// A new directory for the test `name`.
    pub fn new(name: &str) -> Workshop {
        let directory =
            std::env::temp_dir().join(format!("hydrozoa-loader-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Workshop { directory }
    }

    /// The path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Compiles `source` (C, or C++ if `name` says so: `libx.so` from C, `libx++.so` from C++) and
    /// returns the library's path. `arguments` follow the source on the command line; `{dir}` in
    /// them is the directory.
    pub fn build(&self, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
        let cpp = name.contains("++");
        let source_path = self.path(&format!("{name}.{}", if cpp { "cc" } else { "c" }));
        std::fs::write(&source_path, source).unwrap();
        let output = self.path(name);
        let compiler = if cpp { "c++" } else { "cc" };
        let directory = self.directory.to_str().unwrap();
        let result = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-g0", "-o"])
            .arg(&output)
            .arg(format!("-Wl,-soname,{name}"))
            .arg(&source_path)
            .args(arguments.iter().map(|argument| argument.replace("{dir}", directory)))
            .output()
            .unwrap_or_else(|error| panic!("{compiler} is needed to build test inputs: {error}"));
        assert!(
            result.status.success(),
            "{compiler} cannot build {name}:\n{}",
            String::from_utf8_lossy(&result.stderr)
        );
        output
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Opens a library that a test has built.
pub fn open(domain: &Domain, path: &Path, flags: OpenFlags) -> Result<Library> {
    // SAFETY: the sources are in the tests. Their definitions have one type in all libraries of a test, and may be
    // loaded in several copies.
    unsafe { domain.open(path, flags) }
}

/// A function of an open library, as `F`.
///
/// # Safety
/// `F` must be the type of a function pointer that fits the symbol.
pub unsafe fn function<F: Copy>(library: &Library, name: &str) -> F {
    let address = library.symbol(name).unwrap();
    assert_eq!(size_of::<F>(), size_of_val(&address));
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute_copy(&address) }
}

/// The lines of `/proc/self/maps` that name `path`.
pub fn mappings(path: &Path) -> Vec<String> {
    let path = path.canonicalize().unwrap();
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter(|line| line.ends_with(path.to_str().unwrap()))
        .map(str::to_owned)
        .collect()
}

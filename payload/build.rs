//! Embeds the Python modules of `python/`, which interpreters import as `_hydrozoa.NAME`, and says for which version of Python the
//! payload is: `Py_3_11` and so on, as pyo3-ffi says it to itself.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

fn main() {
    tell_version();
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=python");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files: Vec<PathBuf> = fs::read_dir(manifest.join("python"))
        .expect("payload/python is part of the source")
        .map(|entry| entry.expect("a readable directory").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    files.sort();
    let mut table = String::from("const MODULES: &[(&str, &[u8])] = &[\n");
    for file in files {
        let name = file.file_stem().expect("a file has a name").to_string_lossy();
        writeln!(table, "    ({name:?}, include_bytes!({file:?})),").expect("a String grows");
    }
    table.push_str("];\n");
    fs::write(out.join("modules.rs"), table).expect("OUT_DIR can be written");
}

/// Sets `Py_3_N` for each version up to that of the configuration that pyo3-ffi reads.
fn tell_version() {
    const FIRST: u8 = 11;
    const LAST: u8 = 15;
    for minor in FIRST..=LAST {
        println!("cargo::rustc-check-cfg=cfg(Py_3_{minor})");
    }
    println!("cargo::rerun-if-env-changed=PYO3_CONFIG_FILE");
    // The boundary, which the host compiles, knows no version.
    let Some(file) = env::var_os("PYO3_CONFIG_FILE") else { return };
    let settings = fs::read_to_string(file).expect("pyo3-ffi reads it too");
    let version = settings.lines().find_map(|line| line.strip_prefix("version=3."));
    let minor: u8 = version.and_then(|minor| minor.parse().ok()).expect("a version 3.N");
    for known in FIRST..=minor {
        println!("cargo::rustc-cfg=Py_3_{known}");
    }
}

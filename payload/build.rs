//! Embeds the Python modules of `python/`, which interpreters import as `_hydrozoa.NAME`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

fn main() {
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

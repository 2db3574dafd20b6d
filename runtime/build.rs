//! Builds the payload once per Python minor version and embeds the images.
//!
//! The payload must not be linked into the host (it calls the Python C API, which exists only
//! inside an interpreter), so it is no dependency that cargo could build: a nested cargo builds it,
//! with the workspace's lock file and a target directory of its own, which is what keeps the two
//! cargos from waiting for each other's lock. No Python is needed: pyo3-ffi reads the version from
//! a configuration file.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Python minor versions, each with a file in `payload/configs`.
const VERSIONS: [u8; 5] = [10, 11, 12, 13, 14];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let payload = manifest.join("../payload");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    for input in ["src", "python", "configs", "build.rs", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", payload.join(input).display());
    }
    println!("cargo::rerun-if-changed=build.rs");

    let mut table = String::from("const IMAGES: &[(u8, &[u8])] = &[\n");
    for minor in VERSIONS {
        let built = build(&payload, &out.join("payload"), minor);
        let image = out.join(format!("payload-3.{minor}.so"));
        fs::copy(&built, &image)
            .unwrap_or_else(|error| panic!("cannot copy {}: {error}", built.display()));
        writeln!(table, "    ({minor}, include_bytes!({image:?})),").expect("a String grows");
    }
    table.push_str("];\n");
    fs::write(out.join("payloads.rs"), table).expect("OUT_DIR can be written");
}

/// Builds the payload for Python 3.`minor` and returns its path.
fn build(payload: &Path, target_dir: &Path, minor: u8) -> PathBuf {
    let host = env::var("HOST").expect("set by cargo");
    let target = env::var("TARGET").expect("set by cargo");
    let mut cargo = Command::new(env::var_os("CARGO").expect("set by cargo"));
    cargo
        .args(["build", "--quiet", "--release", "--locked", "--lib"])
        .arg("--manifest-path")
        .arg(payload.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .env(
            "PYO3_CONFIG_FILE",
            payload
                .join(format!("configs/3.{minor}.txt"))
                .canonicalize()
                .unwrap_or_else(|error| panic!("no configuration for Python 3.{minor}: {error}")),
        )
        // A symbol table is enough to name frames; line tables of std would triple the size.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    // What the outer build was told about its own compiler runs (clippy's wrapper, coverage and
    // sanitizer flags) must not reach a library that lives in other people's interpreters.
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CLIPPY_ARGS",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET_DIR",
        "PYO3_PYTHON",
        "PYO3_NO_PYTHON",
    ] {
        cargo.env_remove(variable);
    }
    let mut library = target_dir.to_owned();
    if host != target {
        cargo.args(["--target", &target]);
        library.push(&target);
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "the payload for Python 3.{minor} was not built (see above)");
    library.join("release/libhydrozoa_payload.so")
}

//! Builds the payload once per Python minor version and embeds the images.
//!
//! The payload must not be linked into the host (it calls the Python C API, which exists only
//! inside an interpreter), so it cannot be an ordinary dependency: a nested cargo builds it,
//! from the sources that the crate `hydrozoa-payload` has beside its library, with that crate's lock
//! file and target directories of its own, which keep the cargos from waiting for each other's
//! lock. No Python is needed: pyo3-ffi reads the version from a configuration file.
//!
//! The image depends on neither the profile nor the features of the crate. `HYDROZOA_PAYLOAD_TARGET`
//! names a folder in which all builds of a checkout find it (`.cargo/config.toml`).

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Python minor versions, each with a file in `configs` of the payload.
const VERSIONS: [u8; 6] = [10, 11, 12, 13, 14, 15];

/// Folders and files of the package `hydrozoa-payload` that the payload is built from.
const INPUTS: [&str; 6] = ["boundary", "src", "python", "configs", "build.rs", "Cargo.toml"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let package = Path::new(hydrozoa_payload::SOURCES);
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", package.join(input).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    println!("cargo::rerun-if-env-changed=HYDROZOA_PAYLOAD_TARGET");

    let image = |minor: u8| out.join(format!("payload-3.{minor}.so"));
    // docs.rs has no network for a second cargo, and its result is never run. A target that the
    // loader refuses gets no payload; the loader's own error says why.
    if env::var_os("DOCS_RS").is_some() || !is_supported() {
        for minor in VERSIONS {
            fs::write(image(minor), []).expect("OUT_DIR can be written");
        }
    } else {
        let sources = sources(package, &out);
        let shared = env::var_os("HYDROZOA_PAYLOAD_TARGET").filter(|_| sources == package);
        let target = shared.map_or_else(|| out.join("payload"), PathBuf::from);
        let folder = |minor: u8| target.join(format!("3.{minor}"));
        // Half of a build is crates that know no Python: the first one has them compiled, and the others begin as its copy.
        let [first, rest @ ..] = VERSIONS;
        if rest.iter().any(|minor| !folder(*minor).exists()) {
            build(&sources, &folder(first), first);
            for minor in rest.into_iter().filter(|minor| !folder(*minor).exists()) {
                copy_folder(&folder(first), &folder(minor))
                    .expect("the target folder can be written");
            }
        }
        in_parallel(&VERSIONS, |minor| {
            let built = build(&sources, &folder(minor), minor);
            fs::copy(&built, image(minor))
                .unwrap_or_else(|error| panic!("cannot copy {}: {error}", built.display()));
        });
    }

    let mut table = String::from("const IMAGES: &[(u8, &[u8])] = &[\n");
    for minor in VERSIONS {
        let image = image(minor);
        writeln!(table, "    ({minor}, include_bytes!({image:?})),").expect("a String grows");
    }
    table.push_str("];\n");
    fs::write(out.join("payloads.rs"), table).expect("OUT_DIR can be written");
}

/// Calls `work` for each version, for as many at once as cargo may run compilers.
fn in_parallel(versions: &[u8], work: impl Fn(u8) + Sync) {
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1_usize);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..jobs.min(versions.len()) {
            scope.spawn(|| {
                while let Some(&minor) = versions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(minor);
                }
            });
        }
    });
}

/// Whether the loader can be compiled for the target (`compile_error!` in its `arch` module).
fn is_supported() -> bool {
    let is = |name: &str, value: &str| {
        env::var(format!("CARGO_CFG_TARGET_{name}")).is_ok_and(|found| found == value)
    };
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    is("OS", "linux")
        && is("ENV", "gnu")
        && (is("ARCH", "x86_64") || is("ARCH", "aarch64"))
        && !is_static
}

/// The folder to build the payload in: the package itself, or a copy of it.
///
/// A package from a registry may lie in a folder that must not change, or (vendored) inside of
/// another workspace, which cargo would take it for a forgotten member of. Its copy is a workspace of
/// its own. A package that inherits from its workspace is in the checkout, and cannot be copied.
fn sources(package: &Path, out: &Path) -> PathBuf {
    let manifest =
        fs::read_to_string(package.join("Cargo.toml")).expect("a package has a manifest");
    if manifest.contains(".workspace = true") {
        return package.to_owned();
    }
    let copy = out.join("payload-sources");
    let _ = fs::remove_dir_all(&copy);
    for input in INPUTS.into_iter().chain(["Cargo.lock"]) {
        copy_all(&package.join(input), &copy.join(input))
            .unwrap_or_else(|error| panic!("cannot copy {input} of the payload: {error}"));
    }
    fs::write(copy.join("Cargo.toml"), manifest + "\n[workspace]\n").expect("the copy is ours");
    copy
}

/// Copies a folder, which is there as a whole or not at all: another cargo may build the same version.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    let partial = to.with_extension(format!("{}-partial", std::process::id()));
    copy_all(from, &partial)?;
    fs::rename(&partial, to).or_else(|_| fs::remove_dir_all(&partial))
}

/// Copies a file with its time, by which cargo knows what is fresh, or a folder with all that is in it.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().expect("inside of the copy"))?;
        fs::copy(from, to)?;
        return fs::File::options()
            .write(true)
            .open(to)?
            .set_modified(fs::metadata(from)?.modified()?);
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn cargo_home() -> Option<PathBuf> {
    let own = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(own)
}

/// Builds the payload for Python 3.`minor` and returns its path.
fn build(sources: &Path, target_dir: &Path, minor: u8) -> PathBuf {
    let host = env::var("HOST").expect("set by cargo");
    let target = env::var("TARGET").expect("set by cargo");
    let mut cargo = Command::new(env::var_os("CARGO").expect("set by cargo"));
    cargo
        .args(["build", "--quiet", "--release", "--locked", "--example", "payload"])
        .current_dir(sources)
        .arg("--target-dir")
        .arg(target_dir)
        .env(
            "PYO3_CONFIG_FILE",
            sources
                .join(format!("configs/3.{minor}.txt"))
                .canonicalize()
                .unwrap_or_else(|error| panic!("no configuration for Python 3.{minor}: {error}")),
        )
        // Calls are short: one unit gives the best code, and takes no longer where several versions are built at once.
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        // A symbol table is enough to name frames; line tables of std would triple the size.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    // The outer build's settings for its own compiler runs (clippy's wrapper, coverage and
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
    // The image is the same wherever cargo's home is.
    let home = cargo_home().map(|home| format!("--remap-path-prefix={}=cargo", home.display()));
    // A release names the unwinder that it is linked with.
    println!("cargo::rerun-if-env-changed=HYDROZOA_PAYLOAD_FLAGS");
    let flags: Vec<String> =
        home.into_iter().chain(env::var("HYDROZOA_PAYLOAD_FLAGS").ok()).collect();
    if !flags.is_empty() {
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    }
    let mut library = target_dir.to_owned();
    if host != target {
        cargo.args(["--target", &target]);
        library.push(&target);
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(
        status.success(),
        "the payload for Python 3.{minor} was not built (see above). If crates are missing because \
         this build is offline, run `cargo fetch --locked` in {} once with a network",
        sources.display()
    );
    library.join("release/examples/libpayload.so")
}

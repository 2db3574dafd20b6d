//! The prohibitions of each crate (docs/architecture.md, the table of crates).

use crate::sources::{Source, assert_none, code, rust, sources};

/// Words of Python's world. The loader serves any library. One of these words in it is a special case for one user.
const PYTHON: [&str; 16] = [
    "python",
    "torch",
    "numpy",
    "scipy",
    "pypi",
    "pip",
    "conda",
    "wheel",
    "wheels",
    "h5py",
    "pymupdf",
    "pyobject",
    "gil",
    "interpreters",
    "tensor",
    "cuda",
];

#[test]
fn the_loader_knows_neither_python_nor_torch() {
    let knows = |line: &str| {
        let line = line.to_lowercase();
        let word = |word: &str| {
            line.split(|c: char| !c.is_alphanumeric()).any(|token| {
                // `libpython`, `torchvision`: the two names count inside words too.
                token == word
                    || word == PYTHON[0] && token.contains(word)
                    || word == PYTHON[1] && token.contains(word)
            })
        };
        PYTHON.iter().any(|name| word(name))
    };
    assert!(knows("as libpython3.so does") && knows("a lock of h5py") && !knows("PT_INTERP"));
    let found = sources()
        .iter()
        .filter(|source| source.path.starts_with("loader/") && !source.path.ends_with(".lock"))
        .flat_map(|source| source.bad_lines(knows))
        .collect();
    assert_none("the loader is a general one", found);
}

/// The programs that call Python by PyO3, for comparison. They lie outside of the workspace.
const COMPARED: &str = "benches/pyo3/";

#[test]
fn only_the_payload_calls_the_python_c_api() {
    let mut found = Vec::new();
    for source in sources() {
        if !source.path.ends_with("/Cargo.toml") || source.path.starts_with(COMPARED) {
            continue;
        }
        // The payload is an example of its package. An example's own dependencies are development
        // dependencies. Users of the package's library, the boundary, do not get them.
        let is_payload = source.path == "payload/Cargo.toml";
        let lines = source.text.lines();
        let linked = lines.take_while(|line| !is_payload || *line != "[dev-dependencies]").count();
        let manifest = Source {
            text: source.text.lines().take(linked).map(|line| format!("{line}\n")).collect(),
            path: source.path,
        };
        let names = |line: &str, name: &str| line.trim_start().starts_with(name);
        found.extend(manifest.bad_lines(|line| names(line, "pyo3")));
        if manifest.path != "runtime/Cargo.toml" {
            found.extend(manifest.bad_lines(|line| names(line, "hydrozoa-payload")));
        }
    }
    for source in rust(&[
        "loader/",
        "payload/boundary/",
        "adapters/",
        "runtime/",
        "doors/macros/",
        "benches/measure/",
        "serving/models/src/",
        "serving/server/src/",
        "doors/cli/",
        "doors/seal/",
        "doors/web/",
        "benches/",
        "tests/src/",
        "tests/tests/conformance/",
        "tests/tests/pythons/",
    ]) {
        let compared = source.path.starts_with(COMPARED);
        found.extend(source.bad_lines(|line| {
            let calls =
                ["pyo3_ffi", "pyo3::", "PyObject_"].iter().any(|name| code(line).contains(name));
            calls && !code(line).contains('"') && !compared
        }));
        if !source.path.starts_with("runtime/") {
            found.extend(source.bad_lines(|line| code(line).contains("hydrozoa_payload::")));
        }
    }
    assert_none(
        "Python's C API is the payload's alone, and the payload is linked into nothing",
        found,
    );
}

#[test]
fn the_command_holds_no_unsafe_code() {
    let found = rust(&["doors/cli/"])
        .iter()
        .flat_map(|source| source.bad_lines(|line| code(line).contains("unsafe ")))
        .collect();
    assert_none("what needs unsafe belongs to the library", found);
}

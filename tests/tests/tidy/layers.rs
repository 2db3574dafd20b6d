//! What each crate must never do (docs/architecture.md, the table of crates).

use crate::sources::{assert_none, code, rust, sources};

/// Words of Python's world. The loader serves any library; a word of these in it is a special case for one user.
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
                // `libpython`, `torchvision`: the two names count inside of words too.
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

#[test]
fn only_the_payload_calls_the_python_c_api() {
    let mut found = Vec::new();
    for source in sources() {
        let manifest = source.path.ends_with("Cargo.toml") && source.path != "Cargo.toml";
        if manifest && !source.path.starts_with("payload/") {
            found.extend(source.bad_lines(|line| {
                ["pyo3", "hydrozoa-payload"].iter().any(|name| line.trim_start().starts_with(name))
            }));
        }
    }
    for source in rust(&[
        "loader/",
        "runtime/",
        "measure/",
        "cli/",
        "benches/",
        "tests/src/",
        "tests/tests/conformance/",
    ]) {
        found.extend(source.bad_lines(|line| {
            let calls = ["pyo3_ffi", "pyo3::", "PyObject_", "hydrozoa_payload::"]
                .iter()
                .any(|name| code(line).contains(name));
            calls && !code(line).contains('"')
        }));
    }
    assert_none(
        "Python's C API is the payload's alone, and the payload is linked into nothing",
        found,
    );
}

#[test]
fn the_command_holds_no_unsafe_code() {
    let found = rust(&["cli/"])
        .iter()
        .flat_map(|source| source.bad_lines(|line| code(line).contains("unsafe ")))
        .collect();
    assert_none("what needs unsafe belongs to the library", found);
}

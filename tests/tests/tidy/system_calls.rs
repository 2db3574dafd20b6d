//! The loader makes all its requests to the operating system in `loader/src/sys`.

use std::collections::HashSet;

use crate::sources::{Source, assert_none, rust};
use crate::syntax::{self, Kind, Use};

/// Functions of libc that any file of the loader may use, each with its reason.
const ALLOWED: [(&str, &str); 10] = [
    ("__cxa_at_quick_exit", "forwarded for replicas"),
    ("__cxa_thread_atexit_impl", "forwarded for replicas"),
    ("__register_atfork", "forwarded for replicas"),
    ("__tls_get_addr", "forwarded for replicas"),
    ("atexit", "registers with the C library alone"),
    ("fork", "forwarded for replicas"),
    ("free", "frees what a C++ runtime allocates by malloc"),
    ("gnu_get_libc_version", "returns a constant"),
    ("strerror", "returns a text"),
    ("_exit", "ends a process that called a function which is nowhere defined"),
];

/// Parts of `std`, and crates, that are system calls by another name.
const WRAPPERS: [&str; 5] = ["std::fs", "std::thread", "std::process", "std::net", "memmap2"];

/// Methods of paths and files that are system calls.
const METHODS: [&str; 13] = [
    "canonicalize",
    "exists",
    "is_dir",
    "is_file",
    "is_symlink",
    "metadata",
    "read_dir",
    "read_exact",
    "read_link",
    "read_to_end",
    "read_to_string",
    "symlink_metadata",
    "try_exists",
];

#[test]
fn system_calls_of_the_loader_are_in_sys() {
    let sources = rust(&["loader/src/"]);
    let tests = test_files(&sources);
    let mut found = Vec::new();
    let mut allowed = HashSet::new();
    for source in &sources {
        // `testing/` serves the crate's own tests and fuzz targets.
        let exempt = ["loader/src/sys/", "loader/src/testing/"];
        if exempt.iter().any(|folder| source.path.starts_with(folder))
            || tests.contains(&source.path)
        {
            continue;
        }
        for used in syntax::uses(&syntax::parse(source)) {
            match verdict(&used) {
                Verdict::Fine => {}
                Verdict::Allowed(name) => drop(allowed.insert(name)),
                Verdict::Call => {
                    found.push(format!("{}:{}: {}", source.path, used.line, used.path.join("::")));
                }
            }
        }
    }
    assert_none("calls of the operating system belong to loader/src/sys", found);
    let unused = ALLOWED.iter().map(|(name, _)| *name).filter(|name| !allowed.contains(name));
    assert_none(
        "nothing uses these; take them out of ALLOWED",
        unused.map(str::to_owned).collect(),
    );
}

enum Verdict {
    Fine,
    Allowed(&'static str),
    Call,
}

/// The verdict on a use of a path outside of `sys/`.
fn verdict(used: &Use) -> Verdict {
    let path = used.path.join("::");
    let function = match used.kind {
        Kind::Method => return call_if(METHODS.contains(&path.as_str())),
        // A glob would hide the names that it imports.
        Kind::Declaration => return call_if(path == "libc::*" || path.starts_with("std::fs::*")),
        Kind::Other => return Verdict::Fine,
        // It is the same function, declared without the crate libc.
        Kind::Foreign => path.as_str(),
        // Constants of libc have names in capitals. Every other value is a function.
        Kind::Value => match path.strip_prefix("libc::") {
            Some(name) if name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') => name,
            _ => return call_if(WRAPPERS.iter().any(|it| path.starts_with(&format!("{it}::")))),
        },
    };
    match ALLOWED.iter().find(|(name, _)| *name == function) {
        Some((name, _)) => Verdict::Allowed(name),
        None => Verdict::Call,
    }
}

fn call_if(condition: bool) -> Verdict {
    if condition { Verdict::Call } else { Verdict::Fine }
}

/// The files of modules that are compiled for tests only.
pub fn test_files(sources: &[Source]) -> HashSet<String> {
    let mut files = HashSet::new();
    for source in sources {
        let folder = match source.path.strip_suffix("/mod.rs") {
            Some(folder) => folder,
            None if source.path.ends_with("/lib.rs") => "loader/src",
            None => source.path.trim_end_matches(".rs"),
        };
        for module in syntax::test_modules(&syntax::parse(source)) {
            files.insert(format!("{folder}/{module}.rs"));
            files.insert(format!("{folder}/{module}/mod.rs"));
        }
    }
    files
}

#[test]
fn a_system_call_by_any_name_is_one() {
    let calls = |text: &str| {
        let file = syn::parse_str(text).expect("Rust");
        syntax::uses(&file).iter().any(|used| matches!(verdict(used), Verdict::Call))
    };
    for call in [
        "#[cfg(test)] mod tests {} fn f() { unsafe { libc::mmap() } }",
        "use libc::mmap as map; fn f() { unsafe { map() } }",
        "use libc::*;",
        "use std::fs; fn f() { fs::read(\"x\"); }",
        "use std::fs::File; fn f() { paths.map(File::open); }",
        "fn f() { assert!(path.exists()); }",
        "unsafe extern \"C\" { fn open(); }",
    ] {
        assert!(calls(call), "{call}");
    }
    for other in [
        "use std::fs::File; struct Image { file: File, of: libc::pthread_t }",
        "fn f() { g(libc::RTLD_NOW); unsafe { libc::strerror(1) }; }",
        "#[cfg(test)] mod tests { fn f() { std::fs::read(\"x\"); } }",
    ] {
        assert!(!calls(other), "{other}");
    }
}

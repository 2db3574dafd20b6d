//! The layer rules of docs/architecture.md and the style of CONTRIBUTING.md, enforced over the sources' text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the checkout, by its path in it.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Lines with their numbers from 1, each as `path:number`.
    fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        (1..).zip(self.text.lines()).map(|(number, line)| (format!("{}:{number}", self.path), line))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace")
}

/// Every text file that is in the checkout or would be added to it.
fn sources() -> Vec<Source> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names: BTreeSet<String> =
        String::from_utf8(output.stdout).expect("UTF-8 names").lines().map(str::to_owned).collect();
    let sources: Vec<Source> = names
        .into_iter()
        .filter_map(|path| {
            let text = fs::read_to_string(root().join(&path)).ok()?;
            Some(Source { path, text })
        })
        .collect();
    assert!(
        sources.iter().any(|source| source.path == "tests/tests/tidy.rs"),
        "the list of sources is wrong"
    );
    sources
}

fn rust(under: &[&str]) -> Vec<Source> {
    sources()
        .into_iter()
        .filter(|source| {
            source.path.ends_with(".rs")
                && under.iter().any(|folder| source.path.starts_with(folder))
        })
        .collect()
}

fn assert_none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// A line without what a comment says.
fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[test]
fn the_loader_knows_neither_python_nor_torch() {
    // Names of places, not of knowledge: each with its reason.
    let allowed: [(&str, &str); 0] = [];
    let found = sources()
        .iter()
        .filter(|source| source.path.starts_with("loader/"))
        .flat_map(|source| {
            source
                .lines()
                .filter(|(_, line)| {
                    let line = line.to_lowercase();
                    line.contains("python") || line.contains("torch")
                })
                .filter(|(place, line)| {
                    !allowed
                        .iter()
                        .any(|(file, text)| place.starts_with(file) && line.contains(text))
                })
                .map(|(place, line)| format!("{place}: {line}"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("the loader is a general one", found);
}

#[test]
fn system_calls_of_the_loader_are_in_sys() {
    // Memory, files, threads and signals. The dl* family is not among them: forwarding it is what loader/src/dl is for.
    const CALLS: [&str; 22] = [
        "mmap",
        "mmap64",
        "munmap",
        "mprotect",
        "madvise",
        "mremap",
        "open",
        "open64",
        "openat",
        "read",
        "pread",
        "pread64",
        "fstat",
        "memfd_create",
        "fcntl",
        "ftruncate",
        "syscall",
        "pthread_create",
        "pthread_key_create",
        "sigaction",
        "sysconf",
        "getauxval",
    ];
    let calls = |line: &str| {
        code(line).split("libc::").skip(1).any(|rest| {
            let name = rest
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            CALLS.contains(&name) && rest[name.len()..].starts_with('(')
        })
    };
    let found = rust(&["loader/src/"])
        .iter()
        .filter(|source| !source.path.starts_with("loader/src/sys/"))
        .flat_map(|source| {
            let product =
                source.text.split("#[cfg(test)]").next().unwrap_or_default().lines().count();
            source
                .lines()
                .take(product)
                .filter(|(_, line)| calls(line))
                .map(|(place, line)| format!("{place}: {}", line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("OS calls belong to loader/src/sys", found);
}

#[test]
fn only_the_payload_calls_the_python_c_api() {
    let mut found = Vec::new();
    for source in sources() {
        let manifest = source.path.ends_with("Cargo.toml") && source.path != "Cargo.toml";
        if manifest && !source.path.starts_with("payload/") {
            let dependencies = ["pyo3", "hydrozoa-payload"];
            found.extend(
                source
                    .lines()
                    .filter(|(_, line)| {
                        dependencies.iter().any(|name| line.trim_start().starts_with(name))
                    })
                    .map(|(place, line)| format!("{place}: {line}")),
            );
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
        found.extend(
            source
                .lines()
                .filter(|(_, line)| {
                    ["pyo3_ffi", "pyo3::", "PyObject_", "hydrozoa_payload::"]
                        .iter()
                        .any(|name| code(line).contains(name))
                })
                .filter(|(_, line)| !code(line).contains('"'))
                .map(|(place, line)| format!("{place}: {}", line.trim())),
        );
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
        .flat_map(|source| {
            source
                .lines()
                .filter(|(_, line)| code(line).contains("unsafe "))
                .map(|(place, line)| format!("{place}: {}", line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("what needs unsafe belongs to the library", found);
}

#[test]
fn no_file_is_longer_than_600_lines() {
    let found = sources()
        .iter()
        .filter(|source| {
            source.path.ends_with(".rs")
                || source.path.ends_with(".py")
                || source.path.ends_with(".cpp")
        })
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > 600)
        .map(|(source, lines)| format!("{}: {lines} lines", source.path))
        .collect();
    assert_none("a file is one idea", found);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let sources = sources();
    let text = |path: &str| {
        sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
    };
    let workspace = text("Cargo.toml").expect("a workspace");
    for lint in [
        "unsafe_op_in_unsafe_fn",
        "undocumented_unsafe_blocks",
        "missing_safety_doc",
        "allow_attributes_without_reason",
    ] {
        assert!(workspace.contains(&format!("{lint} = \"deny\"")), "{lint} is not denied");
    }
    let found = sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml"))
        .filter(|source| !source.text.contains("[lints]\nworkspace = true"))
        .map(|source| source.path.clone())
        .collect();
    assert_none("a crate without the workspace's lints", found);
}

#[test]
fn nothing_is_left_for_later() {
    let words: Vec<String> =
        ["to|do", "fix|me", "xx|x", "to|do!(", "unimplemented|!(", "#[ign|ore"]
            .iter()
            .map(|word| word.replace('|', ""))
            .collect();
    let mut found = Vec::new();
    for source in sources() {
        if source.path.starts_with("Cargo.lock") || source.path.starts_with("LICENSE") {
            continue;
        }
        for (place, line) in source.lines() {
            let lower = line.to_lowercase();
            let tokens: Vec<&str> =
                lower.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let word = words[..3].iter().any(|word| tokens.contains(&word.as_str()));
            let call = words[3..].iter().any(|word| line.contains(word.as_str()));
            if word || call {
                found.push(format!("{place}: {}", line.trim()));
            }
        }
    }
    assert_none("notes to oneself and switched-off code", found);
}

#[test]
fn nothing_depends_on_one_machine_or_registry() {
    // Written in two parts, so that this file does not contain them.
    let words: Vec<String> = [
        "/root|/",
        "/home|/",
        "/work|/",
        "pypi|.org",
        "pythonhosted|.org",
        "crates|.io/",
        "index-|url",
        "--extra-|index",
    ]
    .iter()
    .map(|word| word.replace('|', ""))
    .collect();
    let mut found = Vec::new();
    for source in sources() {
        // Cargo's own lock file names the registry by its canonical address.
        if source.path == "Cargo.lock" {
            continue;
        }
        for (place, line) in source.lines() {
            if words.iter().any(|word| line.contains(word.as_str())) {
                found.push(format!("{place}: {}", line.trim()));
            }
        }
    }
    assert_none("paths of a machine and addresses of a registry", found);
}

#[test]
fn no_binaries_are_committed() {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let found = String::from_utf8(output.stdout)
        .expect("UTF-8 names")
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(|path| (path, PathBuf::from(root()).join(path)))
        .filter(|(_, path)| fs::read(path).is_ok_and(|bytes| bytes.contains(&0)))
        .map(|(path, _)| path.to_owned())
        .collect();
    assert_none("files with zero bytes", found);
}

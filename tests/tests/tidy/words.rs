//! Things that no file may hold: notes to oneself, paths of one machine, binaries.

use std::fs;

use crate::sources::{assert_none, names, root, sources};

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
        found.extend(source.bad_lines(|line| {
            let lower = line.to_lowercase();
            let tokens: Vec<&str> =
                lower.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            words[..3].iter().any(|word| tokens.contains(&word.as_str()))
                || words[3..].iter().any(|word| line.contains(word.as_str()))
        }));
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
    let found = sources()
        .iter()
        // Cargo's own lock file names the registry by its canonical address.
        .filter(|source| source.path != "Cargo.lock")
        .flat_map(|source| {
            source.bad_lines(|line| words.iter().any(|word| line.contains(word.as_str())))
        })
        .collect();
    assert_none("paths of a machine and addresses of a registry", found);
}

#[test]
fn no_binaries_are_committed() {
    let found = names(false)
        .into_iter()
        .filter(|path| fs::read(root().join(path)).is_ok_and(|bytes| bytes.contains(&0)))
        .collect();
    assert_none("files with zero bytes", found);
}

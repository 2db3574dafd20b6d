//! Tests, steps, files, pages and samples that the documents name exist.

use std::collections::BTreeSet;

use crate::sources::{Source, assert_none, names, root, sources};

/// The heads of the columns in which every name is that of a test.
const HELD_BY: [&str; 3] = ["enforced by", "held by", "case"];

/// A name with so many underscores is a test's, wherever it stands. No function of C, CPython or torch has as many.
const SENTENCE: usize = 4;

fn documents(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| source.path.ends_with(".md") && !source.path.contains("/src/"))
}

/// The tests of the workspace: functions with `#[test]`, names in a table of tests, linker cases.
fn tests(sources: &[Source]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
        let mut attribute = false;
        for line in source.text.lines().map(str::trim) {
            let item = line.strip_prefix("async ").unwrap_or(line);
            let name = item.strip_prefix("fn ").and_then(|rest| rest.split_once('('));
            match name {
                Some((name, _)) if attribute => found.extend([name.to_owned()]),
                _ => {}
            }
            let is_test = line == "#[test]" || line.starts_with("#[tokio::test");
            attribute = is_test || attribute && (line.starts_with("#[") || line == ")]");
        }
        // `const TESTS: &[Test] = &[("name", function), …]` of tests that run in processes of their own.
        let tables =
            source.text.split(": &[Test] = &[").skip(1).filter_map(|rest| rest.split_once("];"));
        for (table, _) in tables {
            found.extend(table.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    for path in names(true) {
        if let Some(file) = path.strip_prefix("tests/linker/cases/") {
            found.extend(file.split('.').next().map(str::to_owned));
        }
    }
    assert!(found.len() > 500, "only {} tests were found", found.len());
    found
}

/// The texts between backticks in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    text.contains('_')
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_*…".contains(c))
}

#[test]
fn every_test_that_a_document_names_exists() {
    let sources = sources();
    let tests = tests(&sources);
    let header = sources.iter().find(|source| source.path == "doors/c/include/hydrozoa.h");
    let header = &header.expect("the C interface has a header").text;
    let of_python =
        sources.iter().filter(|source| source.path.starts_with("doors/python/tests/test_"));
    let of_python: BTreeSet<&str> = of_python
        .flat_map(|source| source.text.lines())
        .filter_map(|line| line.trim_start().strip_prefix("def ")?.split_once('('))
        .map(|(name, _)| name)
        .collect();
    let exists = |name: &str| match name.strip_suffix('*') {
        _ if name.starts_with("hz_") => header.contains(&format!("{name}(")),
        None if name.starts_with("test_") => of_python.contains(name),
        Some(prefix) => tests.iter().any(|test| test.starts_with(prefix)),
        None => tests.contains(name),
    };
    let (mut found, mut seen) = (Vec::new(), 0);
    for document in documents(&sources) {
        let mut held_by = false;
        for (place, line) in document.lines() {
            let row = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
            let last = row.map(|row| row.rsplit(" | ").next().unwrap_or(row).trim());
            held_by = match last {
                Some(last) => held_by || HELD_BY.contains(&last),
                None => false,
            };
            let cell = last.filter(|_| held_by).unwrap_or_default();
            let sentences = quoted(line).filter(|name| name.matches('_').count() >= SENTENCE);
            for name in quoted(cell).chain(sentences).filter(|name| is_name(name)) {
                seen += 1;
                if !exists(name) {
                    found.push(format!("{place}: {name}"));
                }
            }
        }
    }
    assert!(seen > 200, "only {seen} names of tests were found in the documents");
    assert_none("no test has this name", found);
}

#[test]
fn every_file_that_a_document_names_exists() {
    let sources = sources();
    let names = names(true);
    let folders: BTreeSet<&str> =
        names.iter().filter_map(|name| name.split_once('/')).map(|(folder, _)| folder).collect();
    let exists = |path: &str| root().join(path.trim_end_matches('/')).exists();
    let mut found = Vec::new();
    for document in documents(&sources) {
        let here = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (place, line) in document.lines() {
            let paths = quoted(line).filter(|text| {
                text.split_once('/').is_some_and(|(first, _)| folders.contains(first))
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
            });
            found.extend(paths.filter(|path| !exists(path)).map(|path| format!("{place}: {path}")));
            let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            for link in links.filter(|link| !link.contains("://")) {
                let path = link.split('#').next().unwrap_or_default();
                if !root().join(here).join(path).exists() {
                    found.push(format!("{place}: link to {link}"));
                }
            }
        }
    }
    assert_none("no such file", found);
}

#[test]
fn every_page_is_in_the_book() {
    let summary =
        std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the book has a summary");
    let found = names(true)
        .into_iter()
        .filter_map(|name| name.strip_prefix("docs/").map(str::to_owned))
        .filter(|page| page.ends_with(".md") && page != "SUMMARY.md")
        .filter(|page| !summary.contains(&format!("({page})")))
        .collect();
    assert_none("docs/SUMMARY.md lacks a page", found);
}

#[test]
fn the_readme_has_at_most_120_lines() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the file exists");
    let count = readme.lines().count();
    assert!(count <= 120, "README.md has {count} lines: move some to a page of docs");
}

#[test]
fn the_readme_leads_with_the_example_of_the_runtime() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("the file exists");
    let (readme, example) = (read("README.md"), read("runtime/examples/primes.rs"));
    let sample = readme.split("```").nth(1).expect("the README has a sample");
    let code: String = example
        .lines()
        .skip_while(|line| line.is_empty() || line.starts_with("//!"))
        .collect::<Vec<_>>()
        .join("\n");
    // It runs as a documentation test, so it must not be marked as one that only compiles.
    assert_eq!(sample.trim_end(), format!("rust\n{code}"));
}

#[test]
fn the_page_for_users_of_pyo3_has_the_snippets_that_the_tests_run() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("the file exists");
    let page = read("docs/from-pyo3.md");
    for name in ["call", "arrays", "function", "class"] {
        let theirs = read(&format!("benches/pyo3/snippets/src/{name}.rs"));
        let ours = read(&format!("runtime/tests/from_pyo3/{name}.rs"));
        for (side, code) in [("PyO3's", &theirs), ("our", &ours)] {
            assert!(page.contains(&format!("```rust\n{code}```\n")), "{side} {name} is not on it");
        }
        let (long, longer) = (ours.lines().count(), theirs.lines().count());
        assert!(long <= longer, "{name}: {long} lines, {longer} with PyO3");
    }
}

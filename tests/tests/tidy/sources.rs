//! The files of the checkout.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A text file of the checkout, by its path in it.
pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    /// Lines with their numbers from 1, each as `path:number`.
    pub fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        (1..).zip(self.text.lines()).map(|(number, line)| (format!("{}:{number}", self.path), line))
    }

    /// The lines that `bad` finds, each with its place.
    pub fn bad_lines(&self, bad: impl Fn(&str) -> bool) -> Vec<String> {
        self.lines()
            .filter(|(_, line)| bad(line))
            .map(|(place, line)| format!("{place}: {}", line.trim()))
            .collect()
    }
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace")
}

/// The names of all files that git tracks. With `others` also the names of those that it would add.
pub fn names(others: bool) -> BTreeSet<String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached"]).current_dir(root());
    if others {
        command.args(["--others", "--exclude-standard"]);
    }
    let output = command.output().expect("git lists the files");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .expect("UTF-8 names")
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Every text file that is in the checkout or would be added to it.
pub fn sources() -> Vec<Source> {
    let sources: Vec<Source> = names(true)
        .into_iter()
        .filter_map(|path| {
            let text = fs::read_to_string(root().join(&path)).ok()?;
            Some(Source { path, text })
        })
        .collect();
    assert!(
        sources.iter().any(|source| source.path == "tests/tests/tidy/sources.rs"),
        "the list of sources is wrong"
    );
    sources
}

/// The Rust files whose paths begin with one of `under`.
pub fn rust(under: &[&str]) -> Vec<Source> {
    let found: Vec<Source> = sources()
        .into_iter()
        .filter(|source| {
            source.path.ends_with(".rs")
                && under.iter().any(|folder| source.path.starts_with(folder))
        })
        .collect();
    assert!(!found.is_empty(), "no Rust file lies under {under:?}");
    found
}

pub fn assert_none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// A line without its comment.
pub fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

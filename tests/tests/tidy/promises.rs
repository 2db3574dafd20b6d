//! docs/promises.toml has the promises as data, docs/promises.md shows them as tables.
//!
//! `HYDROZOA_TEST_WRITE=1 cargo test -p hydrozoa-tests --test tidy promises` writes the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use serde::Deserialize;

use crate::sources::{assert_none, root};

const PAGE: &str = "docs/promises.md";
const HEAD: &str = "\
# Promises

The tables of [specification.md](specification.md), which says how to read them. This page is made from `docs/promises.toml`:
`HYDROZOA_TEST_WRITE=1 cargo test -p hydrozoa-tests --test tidy promises` writes it. \"By hand\" means that `cargo xtask test` does not run the command.
";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promises {
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    title: String,
    prefix: String,
    #[serde(default)]
    about: String,
    promise: Vec<Promise>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    id: String,
    promise: String,
    #[serde(default)]
    tests: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    steps: Vec<String>,
    #[serde(default)]
    commands: Vec<String>,
    bound: Option<String>,
    figure: Option<String>,
    unit: Option<String>,
    measured: Option<String>,
    #[serde(default)]
    note: String,
}

impl Promise {
    fn is_tested(&self) -> bool {
        [&self.tests, &self.files, &self.steps].iter().any(|names| !names.is_empty())
    }

    /// The cell that says what enforces the promise.
    fn enforced_by(&self) -> String {
        let named = self.tests.iter().chain(&self.files).map(|name| format!("`{name}`"));
        let steps = self.steps.iter().map(|name| format!("step \"{name}\""));
        let by_hand = if self.is_tested() { "" } else { ", by hand" };
        let commands = self.commands.iter().map(|command| format!("`{command}`{by_hand}"));
        let mut cell = named.chain(steps).chain(commands).collect::<Vec<_>>().join(", ");
        if let Some(measured) = &self.measured {
            let _ = write!(cell, "; measured: {measured}");
        }
        match (cell.is_empty(), self.note.is_empty()) {
            (_, true) => cell,
            (true, _) => self.note.clone(),
            (false, _) => format!("{cell}; {}", self.note),
        }
    }

    /// The faults of the promise, each with its id.
    fn faults(&self, suite: &str) -> Vec<String> {
        let mut found = Vec::new();
        let admits = ["not enforced", "not promised"].iter().any(|no| self.note.starts_with(no));
        if !self.is_tested() && self.commands.is_empty() && !admits {
            found.push(format!("{}: nothing enforces it", self.id));
        }
        for step in &self.steps {
            if !suite.contains(&format!("steps.run(\"{}", step.replace('"', "\\\""))) {
                found.push(format!("{}: `cargo xtask test` has no step {step:?}", self.id));
            }
        }
        match (&self.bound, &self.figure, &self.unit) {
            (Some(_), Some(figure), Some(_)) if self.promise.contains(figure.as_str()) => {}
            (None, None, None) => {}
            _ => found.push(format!("{}: bound, figure and unit, as the promise says", self.id)),
        }
        found
    }
}

fn promises() -> Promises {
    let text = fs::read_to_string(root().join("docs/promises.toml")).expect("the file exists");
    toml::from_str(&text).unwrap_or_else(|error| panic!("docs/promises.toml: {error}"))
}

fn page(promises: &Promises) -> String {
    let mut page = HEAD.to_owned();
    for group in &promises.group {
        let _ = write!(page, "\n## {}\n\n", group.title);
        if !group.about.is_empty() {
            let _ = write!(page, "{}\n\n", group.about.trim());
        }
        page.push_str("| | promise | enforced by |\n|---|---|---|\n");
        for promise in &group.promise {
            let _ = writeln!(
                page,
                "| {} | {} | {} |",
                promise.id,
                promise.promise,
                promise.enforced_by()
            );
        }
    }
    page
}

#[test]
fn every_promise_says_what_enforces_it() {
    let suite = fs::read_to_string(root().join("xtask/src/suite.rs")).expect("the file exists");
    let found = promises()
        .group
        .iter()
        .flat_map(|group| &group.promise)
        .flat_map(|promise| promise.faults(&suite))
        .collect();
    assert_none("a promise is enforced, or says that it is not", found);
}

#[test]
fn a_promise_has_an_id_of_its_group() {
    let (mut found, mut prefixes) = (Vec::new(), BTreeSet::new());
    for group in promises().group {
        if !prefixes.insert(group.prefix.clone()) {
            found.push(format!("{}: another group has this prefix", group.prefix));
        }
        let mut last = 0;
        for promise in group.promise {
            let number = promise
                .id
                .strip_prefix(&group.prefix)
                .and_then(|rest| rest.strip_prefix('-')?.parse().ok());
            match number {
                Some(number) if number > last => last = number,
                _ => found.push(format!("{}: not {}-N, or not in order", promise.id, group.prefix)),
            }
        }
    }
    assert_none("ids of promises", found);
}

#[test]
fn the_page_of_promises_is_what_its_data_say() {
    let page = page(&promises());
    let path = root().join(PAGE);
    if std::env::var_os("HYDROZOA_TEST_WRITE").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "{PAGE} is not what docs/promises.toml says: HYDROZOA_TEST_WRITE=1 cargo test -p hydrozoa-tests --test tidy promises"
    );
}

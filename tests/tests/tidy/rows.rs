//! Crates whose files stand in rows: each file uses those of its own row and of the rows above it only. The table is in the
//! documentation of the crate's root. Files that use each other in a circle stand in one row, and are four at most.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, assert_none, rust};
use crate::syntax::{parse, uses};

/// The folders of those crates, and the files beside the root that belong to no row: they use nothing.
const CRATES: [(&str, &[&str]); 3] =
    [("doors/c/src/", &["version"]), ("payload/src/", &[]), ("serving/models/src/", &[])];

/// The most files of a circle.
pub const CIRCLE: usize = 4;

/// The rows of the table in a root's documentation, each with its files or folders.
fn rows(root: &str) -> Vec<Vec<String>> {
    let rows = root.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| {
        let files = row.split(" | ").next().unwrap_or_default();
        files.split(',').map(|name| name.trim_matches([' ', '`']).to_owned()).collect()
    })
    .collect()
}

/// The file or folder beside the root that a source is, or is in; none for the root.
fn name<'a>(source: &'a Source, folder: &str) -> Option<&'a str> {
    let inside = source.path.strip_prefix(folder)?;
    let name = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    (name != "lib").then_some(name)
}

/// The names of files or folders beside the root that a source uses, with the lines where it does.
fn used(source: &Source) -> Vec<(String, usize)> {
    let uses = uses(&parse(source)).into_iter();
    uses.filter(|used| used.path.first().is_some_and(|first| first == "crate"))
        .filter_map(|used| Some((used.path.get(1)?.clone(), used.line)))
        .collect()
}

/// The uses of rows below a source's own.
fn downward(source: &Source, folder: &str, free: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let row = |name: &str| rows.iter().position(|row| row.iter().any(|file| file == name));
    let Some(name) = name(source, folder) else { return Vec::new() };
    let Some(own) = row(name) else {
        let is_free = free.contains(&name);
        return if is_free { Vec::new() } else { vec![format!("{}: it has no row", source.path)] };
    };
    let below = |target: &str| row(target).is_some_and(|target| target > own);
    let found = used(source).into_iter().filter(|(target, _)| below(target));
    found.map(|(target, line)| format!("{}:{line}: crate::{target}", source.path)).collect()
}

/// Which files or folders each one uses.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

fn graph(sources: &[Source], folder: &str) -> Graph {
    let mut graph = Graph::new();
    for source in sources {
        if let Some(name) = name(source, folder) {
            graph
                .entry(name.to_owned())
                .or_default()
                .extend(used(source).into_iter().map(|it| it.0));
        }
    }
    graph
}

/// All that `from` leads to.
fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(name) = open.pop() {
        for next in graph.get(name).into_iter().flatten() {
            if graph.contains_key(next) && found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}

/// The circles, each once.
pub fn circles(graph: &Graph) -> BTreeSet<Vec<String>> {
    let all: BTreeMap<&String, _> = graph.keys().map(|name| (name, reached(graph, name))).collect();
    let circle = |name: &String| -> Vec<String> {
        let back = |other: &&String| all.get(*other).is_some_and(|reached| reached.contains(name));
        all[name].iter().filter(back).cloned().collect()
    };
    graph.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn files_use_no_row_below_theirs() {
    let mut found = Vec::new();
    for (folder, free) in CRATES {
        let sources = rust(&[folder]);
        let root = format!("{folder}lib.rs");
        let root = sources.iter().find(|source| source.path == root).expect("a root");
        let rows = rows(&root.text);
        assert!(rows.len() > 4, "{folder}: {rows:?}");
        let probe = |name: &str, text: String| {
            let source = Source { path: format!("{folder}{name}.rs"), text };
            downward(&source, folder, free, &rows).len()
        };
        let (first, last) = (&rows[0][0], &rows[rows.len() - 1][0]);
        assert_eq!(probe(first, format!("use crate::{last}::Something;")), 1);
        assert_eq!(probe(last, format!("use crate::{first}::Something;")), 0);
        assert_eq!(probe("new", String::new()), 1);
        let files: BTreeSet<_> = sources.iter().filter_map(|source| name(source, folder)).collect();
        let gone = rows.iter().flatten().filter(|name| !files.contains(name.as_str()));
        found.extend(gone.map(|name| format!("{folder}{name}.rs: it has a row and is not there")));
        found.extend(sources.iter().flat_map(|source| downward(source, folder, free, &rows)));
    }
    assert_none("a file uses the rows above it", found);
}

#[test]
fn circles_of_files_are_small_and_stand_in_one_row() {
    let mut found = Vec::new();
    for (folder, _) in CRATES {
        let sources = rust(&[folder]);
        for circle in circles(&graph(&sources, folder)) {
            if circle.len() > CIRCLE {
                found.push(format!("{folder}: {}", circle.join(", ")));
            }
        }
    }
    let planted = |names: [&str; 3]| {
        let next = |index: usize| BTreeSet::from([names[(index + 1) % 3].to_owned()]);
        Graph::from_iter((0..3).map(|index| (names[index].to_owned(), next(index))))
    };
    assert_eq!(circles(&planted(["a", "b", "c"])).len(), 1);
    // A circle across rows would use a row below in one of its files.
    assert_none("a circle has four files at most", found);
}

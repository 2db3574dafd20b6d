//! The floors of the runtime: its modules in an order in which each uses its own floor and those below only.

use std::collections::HashMap;

use crate::rows::{CIRCLE, Graph, circles};
use crate::sources::{Source, assert_none, rust};
use crate::syntax::{parse, uses};

/// The runtime's modules from below (docs/architecture.md). Modules of one floor are one idea.
const RUNTIME: [&[&str]; 9] = [
    &[
        "error",
        "python",
        "sealed",
        "embedded_payloads",
        "panics",
        "environment",
        "thread",
        "shared_signals",
        "adapters",
        "wait_circles",
        "heap",
        "libraries",
        "limits",
        "settled_pages",
        "imports",
        "crash",
    ],
    &["payload"],
    &["domain"],
    &["interpreter", "interrupt"],
    &["memory", "settle", "dense", "session"],
    &["object", "convert", "device"],
    &["handle", "exception", "function", "class", "streams", "asynchronous"],
    &["pool"],
    &["movable", "package"],
];

/// The runtime's roof: separate entries. They may use every module, and no module uses them.
const ROOF: [&str; 6] = ["command_line", "entry", "exit", "inspect", "launch", "process"];

/// The floor of a module of the runtime.
fn floor(module: &str) -> Option<usize> {
    match ROOF.contains(&module) {
        true => Some(RUNTIME.len()),
        false => RUNTIME.iter().position(|modules| modules.contains(&module)),
    }
}

/// The modules that a file is in, from the crate's root: none for the root itself.
fn modules<'a>(path: &'a str, root: &str) -> Vec<&'a str> {
    let inside = path.strip_prefix(root).and_then(|path| path.strip_suffix(".rs"));
    let mut names: Vec<&str> = inside.unwrap_or_default().split('/').collect();
    names.pop_if(|last| matches!(*last, "mod" | "lib"));
    names
}

/// The modules at the root that a file uses, with the paths and lines of the uses. `public` are the names at the crate's root,
/// with their modules.
fn used(source: &Source, public: &HashMap<String, String>) -> Vec<(String, String, usize)> {
    let own = modules(&source.path, "runtime/src/");
    let mut found = Vec::new();
    for used in uses(&parse(source)) {
        let supers = used.path.iter().take_while(|name| *name == "super").count();
        let name = match used.path.first().map(String::as_str) {
            Some("crate") => used.path.get(1),
            // From the innermost module up to the root.
            Some("super") if supers == own.len() => used.path.get(supers),
            _ => None,
        };
        if let Some(name) = name {
            let module = public.get(name).unwrap_or(name).clone();
            found.push((module, used.path.join("::"), used.line));
        }
    }
    found
}

/// The uses of higher floors in a file of the runtime.
fn upward(source: &Source, public: &HashMap<String, String>) -> Vec<String> {
    let own = modules(&source.path, "runtime/src/");
    let Some(module) = own.first() else { return Vec::new() };
    let Some(own_floor) = floor(module) else {
        return vec![format!("{}: the module {module} has no floor", source.path)];
    };
    let higher = |target: &str| floor(target).is_some_and(|target| target > own_floor);
    let found = used(source, public).into_iter().filter(|(target, ..)| higher(target));
    found.map(|(_, path, line)| format!("{}:{line}: {module} uses {path}", source.path)).collect()
}

/// Which modules each module uses.
fn graph(sources: &[Source], public: &HashMap<String, String>) -> Graph {
    let mut graph = Graph::new();
    for source in sources {
        if let Some(module) = modules(&source.path, "runtime/src/").first() {
            let targets = used(source, public).into_iter().map(|(target, ..)| target);
            graph.entry((*module).to_owned()).or_default().extend(targets);
        }
    }
    graph
}

/// The names that the crate's root re-exports.
fn public(sources: &[Source]) -> HashMap<String, String> {
    let root = sources.iter().find(|source| source.path == "runtime/src/lib.rs").expect("a root");
    uses(&parse(root))
        .into_iter()
        .filter(|used| used.path.len() > 1 && floor(&used.path[0]).is_some())
        .map(|used| (used.path[used.path.len() - 1].clone(), used.path[0].clone()))
        .collect()
}

#[test]
fn the_runtimes_modules_use_no_floor_above_theirs() {
    let sources = rust(&["runtime/src/"]);
    let public = public(&sources);
    assert!(public.get("Tensor").is_some_and(|module| module == "convert"));
    let probe = |path: &str, text: &str| {
        upward(&Source { path: path.to_owned(), text: text.to_owned() }, &public).len()
    };
    let interpreter = "runtime/src/interpreter/attach.rs";
    assert_eq!(probe(interpreter, "use crate::pool::Pool;"), 1);
    assert_eq!(probe(interpreter, "use super::super::session::Session;"), 1);
    assert_eq!(probe(interpreter, "fn f(_: crate::Tensor) {}"), 1);
    assert_eq!(probe(interpreter, "use super::live;\nuse crate::{Error, python};"), 0);
    assert_eq!(probe("runtime/src/new.rs", ""), 1);
    let found = sources.iter().flat_map(|source| upward(source, &public)).collect();
    assert_none("a floor uses those below", found);
}

#[test]
fn circles_of_the_runtimes_modules_are_small() {
    let mut sources = rust(&["runtime/src/"]);
    let public = public(&sources);
    let large = |sources: &[Source]| -> Vec<String> {
        let circles = circles(&graph(sources, &public)).into_iter();
        circles.filter(|circle| circle.len() > CIRCLE).map(|circle| circle.join(", ")).collect()
    };
    // Each circle stands on one floor, since one across floors would use a higher one.
    assert_none("a circle has four modules at most", large(&sources));
    let upward =
        Source { path: "runtime/src/error.rs".to_owned(), text: "use crate::Pool;".into() };
    sources.push(upward);
    assert_eq!(large(&sources).len(), 1);
}

#[test]
fn every_floor_is_a_module_of_the_runtime() {
    let sources = rust(&["runtime/src/"]);
    let found = RUNTIME
        .concat()
        .into_iter()
        .chain(ROOF)
        .filter(|name| {
            !sources
                .iter()
                .any(|source| modules(&source.path, "runtime/src/").first() == Some(name))
        })
        .map(str::to_owned)
        .collect();
    assert_none("no such module", found);
}

//! The floors of the runtime: its modules in an order in which each uses its own floor and those below only.

use std::collections::HashMap;

use crate::sources::{Source, assert_none, rust};
use crate::syntax::{parse, uses};

/// The runtime's modules from below (docs/architecture.md). Modules of one floor are one idea.
const RUNTIME: [&[&str]; 8] = [
    &[
        "error",
        "contained",
        "environment",
        "thread",
        "shared_signals",
        "adapters",
        "waiting",
        "heap",
        "libraries",
        "limits",
        "cold",
        "imports",
        "generated_code",
    ],
    &["payload"],
    &["python"],
    &["place"],
    &["interpreter", "interrupt"],
    &[
        "session",
        "asynchronous",
        "object",
        "handle",
        "convert",
        "exception",
        "function",
        "class",
        "streams",
        "device",
        "memory",
        "settle",
    ],
    &["pool"],
    &["movable", "package"],
];

/// The runtime's roof: separate entries. They may use every module, and no module uses them.
const ROOF: [&str; 5] = ["command_line", "entry", "exit", "inspect", "process"];

/// [`crate::Error`](hydrozoa::Error) has a variant for the errors of every floor, which their modules
/// define. These names are all that it takes from above.
const ERRORS: [&str; 4] = ["Candidate", "PackageError", "DeviceError", "Exception"];

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

/// The uses of higher floors in a file of the runtime. `public` are the names at the crate's root, with
/// their modules.
fn upward(source: &Source, public: &HashMap<String, String>) -> Vec<String> {
    let own = modules(&source.path, "runtime/src/");
    let Some(module) = own.first() else { return Vec::new() };
    let Some(own_floor) = floor(module) else {
        return vec![format!("{}: the module {module} has no floor", source.path)];
    };
    let mut found = Vec::new();
    for used in uses(&parse(source)) {
        let supers = used.path.iter().take_while(|name| *name == "super").count();
        let name = match used.path.first().map(String::as_str) {
            Some("crate") => used.path.get(1),
            // From the innermost module up to the root.
            Some("super") if supers == own.len() => used.path.get(supers),
            _ => None,
        };
        let Some(name) = name else { continue };
        let target = public.get(name).unwrap_or(name);
        let Some(target_floor) = floor(target) else { continue };
        let error =
            *module == "error" && used.path.last().is_some_and(|l| ERRORS.contains(&l.as_str()));
        if target_floor > own_floor && !error {
            let path = used.path.join("::");
            found.push(format!("{}:{}: {module} uses {path}", source.path, used.line));
        }
    }
    found
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

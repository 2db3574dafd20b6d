//! The files of the C interface in an order in which each uses those of its own row and of the rows above it only.

use crate::sources::{Source, assert_none, rust};
use crate::syntax::{parse, uses};

/// The rows of the table in the documentation of `capi/src/lib.rs`, each with its files.
fn rows(root: &str) -> Vec<Vec<String>> {
    let rows = root.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| {
        let files = row.split(" | ").next().unwrap_or_default();
        files.split(',').map(|name| name.trim_matches([' ', '`']).to_owned()).collect()
    })
    .collect()
}

/// What a file uses of rows below its own.
fn downward(source: &Source, rows: &[Vec<String>]) -> Vec<String> {
    let row = |name: &str| rows.iter().position(|row| row.iter().any(|file| file == name));
    let name = source.path.trim_start_matches("capi/src/").trim_end_matches(".rs");
    // Which library this is, and the root: they use nothing.
    let Some(own) = row(name) else {
        let known = ["lib", "version"].contains(&name);
        return if known { Vec::new() } else { vec![format!("{}: it has no row", source.path)] };
    };
    let mut found = Vec::new();
    for used in uses(&parse(source)) {
        if used.path.first().is_none_or(|first| first != "crate") {
            continue;
        }
        if used.path.get(1).and_then(|target| row(target)).is_some_and(|target| target > own) {
            found.push(format!("{}:{}: {}", source.path, used.line, used.path.join("::")));
        }
    }
    found
}

#[test]
fn files_of_the_c_interface_use_no_row_below_theirs() {
    let sources = rust(&["capi/src/"]);
    let root = sources.iter().find(|source| source.path == "capi/src/lib.rs").expect("a root");
    let rows = rows(&root.text);
    assert!(rows.len() > 5 && rows[0] == ["status", "failure"], "{rows:?}");
    let probe = |path: &str, text: &str| {
        downward(&Source { path: path.to_owned(), text: text.to_owned() }, &rows).len()
    };
    assert_eq!(probe("capi/src/pointers.rs", "use crate::pool::hz_pool;"), 1);
    assert_eq!(probe("capi/src/pool.rs", "use crate::pointers::free;"), 0);
    assert_eq!(probe("capi/src/new.rs", ""), 1);
    let found = sources.iter().flat_map(|source| downward(source, &rows)).collect();
    assert_none("a file uses the rows above it", found);
}

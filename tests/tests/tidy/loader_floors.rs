//! The floors of the loader, from the table of docs/architecture.md: a module uses its own floor and those
//! below it. Circles of its modules, and of its files, are small.

use std::collections::{BTreeMap, BTreeSet};

use crate::rows::{CIRCLE, Graph, circles};
use crate::sources::{Source, assert_none, root, rust};
use crate::syntax;
use crate::system_calls::test_files;

const ROOT: &str = "loader/src/";

/// Uses of a floor above, each with its reason.
const UPWARD: [(&str, &str, &str); 1] = [(
    "arch",
    "tls",
    "code for one machine that finds thread-local blocks, in assembly, shares their layout with what places them",
)];

#[test]
fn the_loader_s_modules_use_their_own_floor_and_those_below() {
    let floors = floors();
    let sources = rust(&[ROOT]);
    let tests = test_files(&sources);
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources.iter().filter(|source| !tests.contains(&source.path)) {
        let own = module_of(&source.path);
        let Some(floor) = floors.get(own) else {
            found.push(format!("{}: `{own}` stands on no floor", source.path));
            continue;
        };
        for (other, line) in modules_used(source) {
            // Names that `lib.rs` re-exports count where they are defined.
            match floors.get(other.as_str()) {
                Some(above) if above > floor => {
                    if UPWARD.iter().any(|(from, to, _)| (*from, *to) == (own, &other)) {
                        used.insert((own.to_owned(), other));
                    } else {
                        found.push(format!(
                            "{}:{line}: floor {floor} uses `{other}` of floor {above}",
                            source.path
                        ));
                    }
                }
                Some(_) => {}
                None => {
                    found.push(format!("{}:{line}: `crate::{other}` is not a module", source.path))
                }
            }
        }
    }
    assert_none("a floor uses those below it only, so no circle crosses one", found);
    let unused =
        UPWARD.iter().filter(|(from, to, _)| !used.contains(&((*from).into(), (*to).into())));
    assert_none(
        "nothing uses these; take them out of UPWARD",
        unused.map(|(from, to, _)| format!("{from} -> {to}")).collect(),
    );
}

#[test]
fn circles_of_modules_and_of_files_are_small() {
    let sources = rust(&[ROOT]);
    let tests = test_files(&sources);
    let files: BTreeMap<Vec<String>, &Source> = sources
        .iter()
        .filter(|source| !tests.contains(&source.path))
        .map(|source| (module_path(&source.path), source))
        .collect();
    let (mut by_module, mut by_file) = (Graph::new(), Graph::new());
    for (path, source) in files.iter().filter(|(path, _)| !path.is_empty()) {
        for used in syntax::uses(&syntax::parse(source)) {
            let Some(target) = file_of(&files, path, &used.path) else { continue };
            if target != path {
                by_file.entry(path.join("::")).or_default().insert(target.join("::"));
            }
            if target[0] != path[0] {
                by_module.entry(path[0].clone()).or_default().insert(target[0].clone());
            }
        }
    }
    assert!(by_file.len() > 100 && by_module.len() > 15, "{by_module:?}");
    let large = circles(&by_module).into_iter().chain(circles(&by_file));
    let large = large.filter(|circle| circle.len() > CIRCLE).map(|circle| circle.join(", "));
    assert_none("a circle has four files at most", large.collect());
}

/// The module that a file is, from the crate on.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.strip_prefix(ROOT).expect("a file of the loader").trim_end_matches(".rs");
    let inside = inside.trim_end_matches("/mod");
    inside.split('/').filter(|part| *part != "lib").map(str::to_owned).collect()
}

/// The file that a path leads to, if code of the module `from` uses it: the longest beginning that is a file's module.
fn file_of<'a>(
    files: &'a BTreeMap<Vec<String>, &Source>,
    from: &[String],
    used: &[String],
) -> Option<&'a Vec<String>> {
    let up = used.iter().take_while(|part| *part == "super").count();
    // A visibility such as `pub(super)` does not count.
    if used.len() == up {
        return None;
    }
    let begin = match used.first()?.as_str() {
        "crate" => &[],
        "self" => from,
        "super" => from.get(..from.len().checked_sub(up)?)?,
        _ => return None,
    };
    let full = [begin, &used[up.max(1)..]].concat();
    let found = (1..=full.len()).rev().find_map(|end| files.get_key_value(&full[..end]));
    found.map(|(path, _)| path)
}

/// The floor of each top module, from the table of docs/architecture.md.
fn floors() -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut floors = BTreeMap::new();
    for line in text.lines().skip_while(|line| !line.starts_with("| floor |")).skip(2) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, floor, _, modules, _] = cells[..] else { break };
        let floor = floor.parse().unwrap_or_else(|_| panic!("no floor's number: {line}"));
        // Every other part stands between backquotes.
        for module in modules.split('`').skip(1).step_by(2) {
            let known = floors.insert(module.trim_end_matches('/').to_owned(), floor);
            assert!(known.is_none(), "`{module}` stands on two floors");
        }
    }
    assert!(floors.len() > 10, "docs/architecture.md has no table of floors: {floors:?}");
    floors
}

/// The top module that a file belongs to.
fn module_of(path: &str) -> &str {
    let inside = path.strip_prefix(ROOT).expect("a file of the loader");
    let first = inside.split('/').next().expect("a path has a first part");
    first.trim_end_matches(".rs")
}

/// The top modules that a file's product part names, and where.
fn modules_used(source: &Source) -> Vec<(String, usize)> {
    let file = syntax::parse(source);
    // How many `super` lead from the file's module to the crate.
    let inside = source.path.strip_prefix(ROOT).expect("a file of the loader");
    let depth = inside.trim_end_matches("/mod.rs").matches('/').count() + 1;
    syntax::uses(&file)
        .into_iter()
        .filter_map(|used| {
            let up = used.path.iter().take_while(|part| *part == "super").count();
            let at = match used.path.first().map(String::as_str) {
                Some("crate") => 1,
                _ if up > 0 && up >= depth => up,
                _ => return None,
            };
            Some((used.path.get(at)?.clone(), used.line))
        })
        .collect()
}

//! The floors of the loader, from the table of docs/architecture.md: a module uses its own floor and those
//! below it.

use std::collections::{BTreeMap, BTreeSet};

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
                    found.push(format!("{}:{line}: `crate::{other}` is no module", source.path))
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

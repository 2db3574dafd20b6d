//! How long a file and a function may be.

use crate::sources::{Source, assert_none, sources};
use crate::syntax;

/// The most lines of a file: a file is one idea.
const FILE: usize = 600;
/// The most lines of a function: a reader can see all of it at once.
const FUNCTION: usize = 100;

/// Files that a program writes: (file, what writes it). An entry fails the test if the file is short or gone.
const WRITTEN: [(&str, &str); 1] = [("doors/c/include/hydrozoa.h", "cargo xtask header --write")];

/// Functions that are longer, each with its reason: (folder, function, reason). An entry fails the test if its
/// function is short or gone, so that the table only shrinks.
const LONG: [(&str, &str, &str); 1] = [(
    "loader/src/arch/",
    "dynamic_resolver",
    "one sequence of instructions: all registers go in and out",
)];

#[test]
fn no_file_is_longer_than_600_lines() {
    let mut written = WRITTEN.map(|(path, _)| path).to_vec();
    let found = sources()
        .iter()
        .filter(|source| {
            [".rs", ".py", ".c", ".cc", ".cpp", ".h", ".S"]
                .iter()
                .any(|ending| source.path.ends_with(ending))
        })
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > FILE)
        .filter(|(source, _)| match written.iter().position(|path| *path == source.path) {
            Some(entry) => {
                written.remove(entry);
                false
            }
            None => true,
        })
        .map(|(source, lines)| format!("{}: {lines} lines", source.path))
        .collect();
    assert_none("a file is one idea", found);
    let stale = written.into_iter().map(str::to_owned).collect();
    assert_none("these are no longer long; take them out of WRITTEN", stale);
}

#[test]
fn no_function_is_longer_than_100_lines() {
    let mut known = LONG.map(|(path, name, _)| (path, name)).to_vec();
    let mut found = Vec::new();
    for source in sources() {
        for function in functions(&source) {
            if function.lines <= FUNCTION {
                continue;
            }
            let entry = known
                .iter()
                .position(|(path, name)| source.path.starts_with(path) && *name == function.name);
            if let Some(entry) = entry {
                known.remove(entry);
                continue;
            }
            let syntax::Function { name, lines, line } = function;
            found.push(format!("{}:{line}: {name}: {lines} lines", source.path));
        }
    }
    assert_none("a function can be seen at once", found);
    let stale = known.into_iter().map(|(path, name)| format!("{path}: {name}")).collect();
    assert_none("these are no longer long; take them out of LONG", stale);
}

fn functions(source: &Source) -> Vec<syntax::Function> {
    match source.path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("rs") => syntax::functions(&syntax::parse(source)),
        Some("py") => python(&source.text),
        _ => Vec::new(),
    }
}

/// Functions of Python: the lines after a `def` that are indented deeper, to the last line with text.
fn python(text: &str) -> Vec<syntax::Function> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ").map(str::to_owned)
    };
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(rest) = begins(line) else { continue };
        let name = rest.split('(').next().unwrap_or_default().to_owned();
        let ends = |other: &str| {
            // A signature over several lines ends with `)` at the indentation of `def`.
            indent(other) <= indent(line) && !other.trim_start().starts_with(')')
        };
        let body = lines[at + 1..]
            .iter()
            .take_while(|other| other.trim().is_empty() || !ends(other))
            .collect::<Vec<_>>();
        let length =
            body.iter().rposition(|other| !other.trim().is_empty()).map_or(0, |last| last + 1);
        found.push(syntax::Function { name, lines: 1 + length, line: at + 1 });
    }
    found
}

#[test]
fn a_function_of_python_ends_with_its_indentation() {
    let text = "class A:\n  async def a(\n    x,\n  ):\n\n    return 1\n\n  def b(): pass\nz = 1\n";
    let lengths: Vec<(String, usize)> =
        python(text).into_iter().map(|function| (function.name, function.lines)).collect();
    assert_eq!(lengths, [("a".into(), 5), ("b".into(), 1)]);
}

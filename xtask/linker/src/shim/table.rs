//! The table of tests: names and flags, one line each (see `glibc.txt` for its grammar).

use anyhow::{Context, bail};

/// A directory of sources and the programs and modules built from it.
pub(super) struct Directory {
    pub name: String,
    pub programs: Vec<Unit>,
    pub modules: Vec<Unit>,
    /// Tests that do not apply, and why.
    pub excluded: Vec<(String, String)>,
}

/// One executable or shared object.
#[derive(Clone, Default)]
pub(super) struct Unit {
    pub name: String,
    pub source: String,
    pub compile: Vec<String>,
    pub link: Vec<String>,
    /// Modules, or `-lNAME`.
    pub needs: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// A file of the sources that standard output must equal.
    pub expected: Option<String>,
    pub no_pie: bool,
    /// Not a test, but an executable for inspection.
    pub helper: bool,
}

/// Reads a table.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Directory>> {
    let mut directories: Vec<Directory> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = number + 1;
        let (kind, rest) =
            line.split_once(' ').with_context(|| format!("line {number}: {line}"))?;
        if kind == "directory" {
            directories.push(Directory {
                name: rest.to_owned(),
                programs: Vec::new(),
                modules: Vec::new(),
                excluded: Vec::new(),
            });
            continue;
        }
        let directory = directories
            .last_mut()
            .with_context(|| format!("line {number}: no directory is named before"))?;
        match kind {
            "program" => directory.programs.extend(units(rest, number)?),
            "module" => directory.modules.extend(units(rest, number)?),
            "excluded" => {
                let (name, reason) =
                    rest.split_once(' ').with_context(|| format!("line {number}: no reason"))?;
                directory.excluded.push((name.to_owned(), reason.to_owned()));
            }
            _ => bail!("line {number}: unknown kind {kind}"),
        }
    }
    Ok(directories)
}

/// The units of a line: one unit, or one for each number of the range in its name.
fn units(text: &str, number: usize) -> anyhow::Result<Vec<Unit>> {
    let name = text.split(' ').next().unwrap_or_default();
    let Some((before, range, after)) = range_of(name) else {
        return Ok(vec![unit(text, name, None, number)?]);
    };
    range
        .iter()
        .map(|index| unit(text, &format!("{before}{index}{after}"), Some(index), number))
        .collect()
}

fn unit(text: &str, name: &str, index: Option<&str>, number: usize) -> anyhow::Result<Unit> {
    let mut unit = Unit { name: name.to_owned(), ..Unit::default() };
    for word in text.split_whitespace().skip(1) {
        let word = index.map_or(word.to_owned(), |index| word.replace("{}", index));
        let (key, value) = word.split_once('=').unwrap_or((&word, ""));
        match key {
            "source" => unit.source = value.to_owned(),
            "cc" => unit.compile.push(value.to_owned()),
            "ld" => unit.link.push(value.to_owned()),
            "link" => match range_of(value) {
                Some((before, range, after)) => {
                    unit.needs.extend(range.iter().map(|n| format!("{before}{n}{after}")));
                }
                None => unit.needs.push(value.to_owned()),
            },
            "env" => {
                let (name, value) = value
                    .split_once('=')
                    .with_context(|| format!("line {number}: env= wants NAME=VALUE"))?;
                unit.environment.push((name.to_owned(), value.to_owned()));
            }
            "expect" => unit.expected = Some(value.to_owned()),
            "no-pie" => unit.no_pie = true,
            "helper" => unit.helper = true,
            _ => bail!("line {number}: unknown key {key}="),
        }
    }
    if unit.source.is_empty() {
        unit.source = format!("{name}.c");
    }
    Ok(unit)
}

/// The parts of `a{00..09}b`: the text before, the numbers as wide as the first, the text after.
fn range_of(text: &str) -> Option<(&str, Vec<String>, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (range, after) = rest.split_once('}')?;
    let (first, last) = range.split_once("..")?;
    let (from, to): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let width = first.len();
    Some((before, (from..=to).map(|n| format!("{n:0width$}")).collect(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_makes_a_unit_for_each_number() {
        let text = "directory d\nmodule m{08..10}x source=m.c cc=-DN={}\nprogram p link=m{0..1}";
        let directories = parse(text).unwrap();
        let names: Vec<_> = directories[0].modules.iter().map(|unit| &*unit.name).collect();
        assert_eq!(names, ["m08x", "m09x", "m10x"]);
        assert_eq!(directories[0].modules[1].compile, ["-DN=09"]);
        assert_eq!(directories[0].programs[0].needs, ["m0", "m1"]);
    }

    #[test]
    fn the_committed_table_is_well_formed() {
        let directories = parse(super::super::GLIBC).unwrap();
        assert!(directories.iter().all(|directory| !directory.programs.is_empty()));
    }
}

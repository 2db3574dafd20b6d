//! The memory that a further interpreter takes for the libraries of a Python and its packages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hydrozoa::loader::{self, Cost};
use hydrozoa::python::Installation;
use hydrozoa::{LibraryRules, Survey, Surveyed};

use super::Findings;
use crate::inspect::{count, size};

/// So many packages have a line of their own.
const PACKAGES: usize = 10;

/// So many files are named where a line stands for several.
const NAMES: usize = 3;

/// Reports on libpython, the standard library's extension modules and site-packages. A library that plain python
/// loads and the loader refuses is a finding.
pub(super) fn report(python: &Installation, findings: &mut Findings) {
    let standard = python.prefix().join(format!("lib/python3.{}/lib-dynload", python.minor()));
    let places = [python.library().to_owned(), standard, python.site_packages()];
    let places: Vec<PathBuf> = places.into_iter().filter(|place| place.exists()).collect();
    match hydrozoa::survey(&places, python, &LibraryRules::new()) {
        Ok(survey) => {
            replicated(&survey);
            shared(&survey);
            failed(&survey, findings);
        }
        Err(error) => {
            say!("    libraries: {error}");
            findings.add(format!("the libraries of {}: {error}", python.library().display()));
        }
    }
}

/// The replicas of each interpreter, by package.
fn replicated(survey: &Survey) {
    let total = survey.replicated();
    let mut packages: BTreeMap<&str, (Cost, usize)> = BTreeMap::new();
    for library in survey.libraries.iter().filter(|library| library.is_replicated()) {
        let (cost, files) = packages.entry(&library.package).or_default();
        (*cost, *files) = (*cost + library.cost, *files + 1);
    }
    let mut packages: Vec<_> = packages.into_iter().collect();
    packages.sort_by_key(|(_, (cost, _))| std::cmp::Reverse((cost.at_load(), cost.at_most())));
    say!(
        "    libraries, by their headers and relocations: a further interpreter that loads all {} of its own",
        survey.libraries.iter().filter(|library| library.is_replicated()).count()
    );
    say!(
        "    costs {} at load, {} once all variables are written, and shares {}",
        size(total.at_load()),
        size(total.at_most()),
        size(total.shared)
    );
    say!("      {:>10} {:>10} {:>10}", "at load", "at most", "shared");
    let line = |name: &str, cost: &Cost, files: usize| {
        let files = count(files, "library", "libraries");
        let [load, most, shared] = [cost.at_load(), cost.at_most(), cost.shared].map(size);
        say!("      {load:>10} {most:>10} {shared:>10}  {name}: {files}");
    };
    let (largest, others) = packages.split_at(packages.len().min(PACKAGES));
    for (name, (cost, files)) in largest {
        line(name, cost, *files);
    }
    if !others.is_empty() {
        let cost = others.iter().map(|(_, (cost, _))| *cost).sum();
        let files = others.iter().map(|(_, (_, files))| files).sum();
        line(&format!("{} more", count(others.len(), "package", "packages")), &cost, files);
    }
}

/// The libraries that exist once, by the rule that shares them. Dependencies of a shared library count with that library's rule.
fn shared(survey: &Survey) {
    let mut rules: BTreeMap<&str, Vec<&Surveyed>> = BTreeMap::new();
    for library in survey.libraries.iter().filter(|library| !library.is_replicated()) {
        rules.entry(&library.reason).or_default().push(library);
    }
    if rules.is_empty() {
        return;
    }
    let mut rules: Vec<_> = rules.into_iter().collect();
    let bytes = |libraries: &[&Surveyed]| libraries.iter().map(|one| one.once()).sum::<usize>();
    rules.sort_by_key(|(_, libraries)| std::cmp::Reverse(bytes(libraries)));
    say!("    once for all interpreters: {}", size(survey.shared()));
    for (reason, libraries) in rules {
        let names = libraries.iter().filter_map(|one| one.path.file_name());
        let names = some(names.map(|name| name.to_string_lossy().into_owned()).collect());
        say!("      {:>10}  {names}: {reason}", size(bytes(&libraries)));
    }
}

fn failed(survey: &Survey, findings: &mut Findings) {
    if survey.failed.is_empty() {
        return;
    }
    let files = count(survey.failed.len(), "file", "files");
    say!("    not inspected: {files}");
    for (_, error) in survey.failed.iter().take(NAMES) {
        say!("      {error}");
    }
    if let Some(more) = survey.failed.len().checked_sub(NAMES).filter(|more| *more > 0) {
        say!("      and {more} more; `hydrozoa inspect` on the directory lists them");
    }
    for (_, error) in &survey.failed {
        // A file that is not a library fails in plain python too, if anything opens it.
        if let hydrozoa::Error::Load(loader::Error::Refused { .. }) = error {
            findings.add(error.to_string());
        }
    }
}

/// The first of `names`, and how many more there are.
fn some(names: Vec<String>) -> String {
    match names.len().checked_sub(NAMES) {
        Some(more) if more > 0 => format!("{} and {more} more", names[..NAMES].join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_counted_and_few_are_listed() {
        let names = |number: usize| some((1..=number).map(|name| name.to_string()).collect());
        assert_eq!(names(3), "1, 2, 3");
        assert_eq!(names(5), "1, 2, 3 and 2 more");
    }
}

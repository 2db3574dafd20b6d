//! The report on a directory.

use std::fmt::{self, Write as _};
use std::path::Path;

use hydrozoa::{Survey, Surveyed};
use serde_json::{Value, json};

use super::{figures, size, with, words};

/// The report as text. Paths in it are relative to `directory`.
pub(super) fn text(directory: &Path, survey: &Survey) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let replicated: Vec<_> = survey.libraries.iter().filter(|one| one.is_replicated()).collect();
    let shared: Vec<_> = survey.libraries.iter().filter(|one| !one.is_replicated()).collect();
    writeln!(out, "{}", directory.display())?;
    if !replicated.is_empty() {
        writeln!(
            out,
            "  each interpreter has its own; a further one costs (`constants` are a part of `at load`)"
        )?;
        header(&mut out)?;
        for library in &replicated {
            row(&mut out, &real, library)?;
        }
        let total = survey.replicated();
        writeln!(
            out,
            "  total of {}: {} at load, {} at most, {} for each thread; {} are shared",
            count(replicated.len(), "library", "libraries"),
            size(total.at_load()),
            size(total.at_most()),
            size(total.thread_local),
            size(total.shared)
        )?;
    }
    if !shared.is_empty() {
        writeln!(out, "  once for all interpreters; a further one costs nothing")?;
        for library in &shared {
            writeln!(
                out,
                "    {:<11}{:>10}  {}  {}",
                words(Some(library.class)),
                size(library.once()),
                shown(&real, library),
                library.reason
            )?;
        }
        let files = count(shared.len(), "library", "libraries");
        writeln!(out, "  total of {files}: {}", size(survey.shared()))?;
    }
    let incomplete: Vec<_> =
        survey.libraries.iter().filter(|one| !one.missing.is_empty()).collect();
    if !incomplete.is_empty() {
        writeln!(
            out,
            "  with needs that were not found; after an import (--after MODULE) the class may be another one"
        )?;
        for library in incomplete {
            writeln!(out, "    {}: {}", shown(&real, library), library.missing.join(", "))?;
        }
    }
    if !survey.failed.is_empty() {
        writeln!(out, "  not inspected")?;
        for (_, error) in &survey.failed {
            writeln!(out, "    {error}")?;
        }
    }
    Ok(out)
}

/// `1 library` or `3 libraries`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn header(out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "    {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "at load", "constants", "on write", "zeroed", "a thread", "shared"
    )
}

fn row(out: &mut String, directory: &Path, library: &Surveyed) -> fmt::Result {
    let cost = &library.cost;
    writeln!(
        out,
        "    {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {}  {}",
        size(cost.at_load()),
        size(cost.relocated_constants),
        size(cost.data),
        size(cost.zeroed),
        size(cost.thread_local),
        size(cost.shared),
        shown(directory, library),
        library.reason
    )
}

fn shown(directory: &Path, library: &Surveyed) -> String {
    library.path.strip_prefix(directory).unwrap_or(&library.path).display().to_string()
}

/// The report as JSON.
pub(super) fn as_json(survey: &Survey) -> Value {
    let library = |library: &Surveyed| {
        let entry = json!({
            "path": library.path,
            "package": library.package,
            "class": words(Some(library.class)),
            "reason": library.reason,
            "missing": library.missing,
        });
        with(entry, figures(&library.cost))
    };
    json!({
        "libraries": survey.libraries.iter().map(library).collect::<Vec<_>>(),
        "failed": survey.failed.iter().map(|(path, error)| json!({
            "path": path,
            "error": error.to_string(),
        })).collect::<Vec<_>>(),
        "replicated": figures(&survey.replicated()),
        "once": survey.shared(),
    })
}

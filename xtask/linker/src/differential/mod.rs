//! Compares every relocated word of real libraries with glibc's.

mod inputs;
mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::machine::MACHINE;
use super::object::{self, Relocated};
use super::words::{self, INTERPOSED, LATE, PROGRAM, UNIFIED, UNIQUE};
use xtask_support::progress::Progress;

/// The result of one object.
#[derive(Default)]
struct Outcome {
    words: usize,
    /// Weak or unique definitions of the object that our loader replaces by the definition of a shared object. The
    /// loader documents this; glibc does it for objects of the global scope.
    unified: usize,
    /// References to functions that the loader answers itself (`dlopen`, `__tls_get_addr`, ...).
    interposed: usize,
    /// Words that the two loaders bind differently by design: see the page's preface.
    designed: usize,
    differences: Vec<String>,
    /// Why the object was not compared.
    refused: Option<Refusal>,
}

/// Why each loader refused the object; `None` for a loader that opens it.
struct Refusal {
    glibc: Option<String>,
    ours: Option<String>,
}

/// Compares everything under `inputs` and prints the table.
pub(super) fn run(
    inputs: &[PathBuf],
    python: Option<&Path>,
    page: Option<&Path>,
) -> anyhow::Result<()> {
    ensure!(
        !inputs.is_empty(),
        "name what to compare: cargo xtask linker --differential FILE|DIR|WHEEL…"
    );
    let python = python
        .context("name the libpython whose symbols extensions refer to: --python LIBPYTHON")?;
    let mut rows = Vec::new();
    for input in inputs {
        // One input's files at a time: unpacked wheels take disk space.
        let scratch = tempfile::tempdir()?;
        for source in inputs::sources(input, scratch.path())? {
            let progress = Progress::new(&source.name, source.objects.len() as u64);
            let outcomes = source
                .objects
                .iter()
                .map(|object| {
                    progress.item(&object.file_name().unwrap_or_default().to_string_lossy());
                    compare(python, object, &source.objects)
                })
                .collect::<anyhow::Result<Vec<_>>>()?;
            rows.push((source, outcomes));
        }
    }
    report::write(&rows, page)
}

/// Compares one of the `objects` of a source.
fn compare(python: &Path, object: &Path, objects: &[PathBuf]) -> anyhow::Result<Outcome> {
    let bytes = std::fs::read(object)?;
    let places = object::places(&bytes)?;
    let mut outcome = Outcome { words: places.len(), ..Outcome::default() };
    let both = |folders: &[&Path]| -> anyhow::Result<_> {
        let run = |by| run_worker(by, python, object, folders);
        Ok((run("glibc")?, run("hydrozoa")?))
    };
    let mut answers = both(&[])?;
    // Often only the program that opens a wheel's libraries makes their dependencies findable.
    if answers.0.as_ref().is_err_and(|reason| reason.contains("cannot open shared object file")) {
        let folders: BTreeSet<_> = objects.iter().filter_map(|object| object.parent()).collect();
        let again = both(&folders.into_iter().collect::<Vec<_>>())?;
        if again.0.is_ok() {
            answers = again;
        }
    }
    let (theirs, ours) = match answers {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        (Err(glibc), ours) => {
            outcome.refused = Some(Refusal { glibc: Some(glibc), ours: ours.err() });
            return Ok(outcome);
        }
        // An intended difference, with its reason (docs/loader.md).
        (Ok(_), Err(ours)) if ours.contains(": refused: ") => {
            outcome.refused = Some(Refusal { glibc: None, ours: Some(ours) });
            return Ok(outcome);
        }
        (Ok(_), Err(ours)) => {
            outcome.differences.push(format!("only glibc loads it: {ours}"));
            return Ok(outcome);
        }
    };
    ensure!(
        theirs.len() == places.len() && ours.len() == places.len(),
        "a worker lost words of {}",
        object.display()
    );
    let name = words::base_name(object);
    for ((place, theirs), ours) in places.iter().zip(&theirs).zip(&ours) {
        classify(&mut outcome, &name, place, theirs, ours);
    }
    Ok(outcome)
}

fn classify(outcome: &mut Outcome, object: &str, place: &Relocated, theirs: &str, ours: &str) {
    let both_unique = theirs.ends_with(UNIQUE) && ours.ends_with(UNIQUE);
    let [theirs, ours] = [theirs, ours].map(|text| text.strip_suffix(UNIQUE).unwrap_or(text));
    let unified = ours.strip_prefix(UNIFIED);
    let programs = theirs.strip_prefix(PROGRAM);
    let theirs = programs.unwrap_or(theirs);
    if theirs == unified.unwrap_or(ours) {
        return;
    }
    // `[tls:]OBJECT OFFSET`
    let owner = |meaning: &str| {
        let name = meaning.split(' ').next().unwrap_or_default();
        name.rsplit(':').next().unwrap_or_default().to_owned()
    };
    if ours.starts_with(INTERPOSED) {
        outcome.interposed += 1;
    } else if unified.is_some_and(|ours| owner(ours) != object) && owner(theirs) == object {
        outcome.unified += 1;
    } else if theirs == LATE || (programs.is_some() && owner(ours) == object) || both_unique {
        outcome.designed += 1;
    } else {
        outcome.differences.push(format!(
            "{:#x} {} {}: glibc {theirs}, ours {ours}",
            place.offset,
            goblin::elf::reloc::r_to_str(place.number, MACHINE),
            place.symbol
        ));
    }
}

/// Room for thread-local data of initial-exec code in bytes. Allocators need more than the 1,664 that glibc has for
/// libraries loaded later.
const STATIC_TLS: usize = 1 << 16;

/// The meaning of each word, or why the loader refused the object. The `folders` are searched for its dependencies
/// first.
fn run_worker(
    by: &str,
    python: &Path,
    object: &Path,
    folders: &[&Path],
) -> anyhow::Result<Result<Vec<String>, String>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["linker", "words", by]).arg(python).arg(object);
    command.env("GLIBC_TUNABLES", format!("glibc.rtld.optional_static_tls={STATIC_TLS}"));
    if !folders.is_empty() {
        let more = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = folders.iter().map(|folder| folder.to_path_buf());
        let all = folders.chain(std::env::split_paths(&more));
        command.env("LD_LIBRARY_PATH", std::env::join_paths(all)?);
    }
    let output = command.output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        // The searched folders depend on the machine and are not part of the reason.
        let folder = format!("{}/", object.parent().unwrap_or(object).display());
        let reason = reason.trim_start_matches("error: ").trim_start_matches("glibc: ");
        let reason = reason.split_once(" in ").map_or(reason, |(reason, _)| reason);
        return Ok(Err(object::with_own_names(&reason.replace(&folder, ""))));
    }
    let text = String::from_utf8(output.stdout)?;
    // Constructors of dependencies may print. The words are the lines that begin with a number.
    let lines = text.lines().filter_map(|line| {
        let (index, meaning) = line.split_once(' ')?;
        index.parse::<usize>().ok().map(|_| meaning.to_owned())
    });
    Ok(Ok(lines.collect()))
}

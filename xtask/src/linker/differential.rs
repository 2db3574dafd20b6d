//! Every relocated word of real libraries, ours beside glibc's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::object::{self, Place};
use crate::progress::Progress;

/// What became of one object.
#[derive(Default)]
struct Outcome {
    words: usize,
    /// Weak or unique definitions of its own for which ours has the one of a system object, as the
    /// loader documents and as glibc does for objects of the global scope.
    unified: usize,
    /// References to functions that the loader answers itself (`dlopen`, `__tls_get_addr`, ...).
    interposed: usize,
    differences: Vec<String>,
    /// Why it was not compared.
    refused: Option<String>,
}

/// The functions that every domain interposes.
const INTERPOSED: [&str; 12] = [
    "__tls_get_addr",
    "_dl_find_object",
    "dl_iterate_phdr",
    "dladdr",
    "dladdr1",
    "dlclose",
    "dlerror",
    "dlinfo",
    "dlopen",
    "dlsym",
    "dlvsym",
    "pthread_create",
];

/// Compares everything under `inputs` and prints the table.
pub(super) fn run(
    inputs: &[PathBuf],
    python: Option<&Path>,
    table: Option<&Path>,
) -> anyhow::Result<()> {
    ensure!(
        !inputs.is_empty(),
        "name what to compare: cargo xtask linker --differential FILE|DIR|WHEEL…"
    );
    let python = python
        .context("name the libpython whose symbols extensions refer to: --python LIBPYTHON")?;
    let scratch = tempfile::tempdir()?;
    let mut rows: BTreeMap<String, Vec<(PathBuf, Outcome)>> = BTreeMap::new();
    for input in inputs {
        for (group, objects) in groups(input, scratch.path())? {
            let progress = Progress::new(&group, objects.len() as u64);
            let outcomes = rows.entry(group).or_default();
            for object in objects {
                progress.item(&object.file_name().unwrap_or_default().to_string_lossy());
                let outcome = compare(python, &object)?;
                outcomes.push((object, outcome));
            }
        }
    }
    report(&rows, table)
}

/// The objects of an input by the name of the wheel or directory that they come from.
fn groups(input: &Path, scratch: &Path) -> anyhow::Result<Vec<(String, Vec<PathBuf>)>> {
    let name = input.file_name().unwrap_or(input.as_os_str()).to_string_lossy().into_owned();
    if name.ends_with(".whl") {
        let target = scratch.join(&name);
        let archive = std::fs::File::open(input).with_context(|| input.display().to_string())?;
        zip::ZipArchive::new(archive)?.extract(&target)?;
        return Ok(vec![(name, objects_under(&target)?)]);
    }
    if input.is_dir() {
        let mut found: Vec<_> = std::fs::read_dir(input)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        found.sort();
        let wheels: Vec<_> =
            found.iter().filter(|path| path.extension().is_some_and(|end| end == "whl")).collect();
        if wheels.is_empty() {
            return Ok(vec![(name, objects_under(input)?)]);
        }
        let mut all = Vec::new();
        for wheel in wheels {
            all.extend(groups(wheel, scratch)?);
        }
        return Ok(all);
    }
    Ok(vec![(name, vec![input.to_owned()])])
}

fn objects_under(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut objects = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() && name.contains(".so") && !name.starts_with(".inert-") {
                let bytes = std::fs::read(entry.path())?;
                if object::is_loadable(&bytes) {
                    objects.push(entry.path());
                }
            }
        }
    }
    objects.sort();
    Ok(objects)
}

fn compare(python: &Path, object: &Path) -> anyhow::Result<Outcome> {
    let bytes = std::fs::read(object)?;
    let places = object::places(&bytes)?;
    let mut outcome = Outcome { words: places.len(), ..Outcome::default() };
    let (theirs, ours) = (words("glibc", python, object)?, words("hydrozoa", python, object)?);
    let (theirs, ours) = match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        (Err(theirs), Err(ours)) => {
            outcome.refused = Some(format!("both refuse it: {theirs}; {ours}"));
            return Ok(outcome);
        }
        (Err(theirs), Ok(_)) => {
            outcome.refused = Some(format!("glibc refuses it: {theirs}"));
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
    for ((place, theirs), ours) in places.iter().zip(&theirs).zip(&ours) {
        classify(&mut outcome, place, theirs, ours);
    }
    Ok(outcome)
}

fn classify(outcome: &mut Outcome, place: &Place, theirs: &str, ours: &str) {
    if theirs == ours {
        return;
    }
    if INTERPOSED.contains(&place.symbol.as_str()) {
        outcome.interposed += 1;
    } else if place.vague {
        outcome.unified += 1;
    } else {
        outcome.differences.push(format!(
            "{:#x} {} {}: glibc {theirs}, ours {ours}",
            place.offset,
            goblin::elf::reloc::r_to_str(place.kind, goblin::elf::header::EM_X86_64),
            place.symbol
        ));
    }
}

/// The meaning of each word, or why the loader refused the object.
fn words(by: &str, python: &Path, object: &Path) -> anyhow::Result<Result<Vec<String>, String>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["linker", "words", by])
        .arg(python)
        .arg(object)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        return Ok(Err(format!("{reason} ({})", output.status)));
    }
    let text = String::from_utf8(output.stdout)?;
    // Constructors of dependencies may print: the words are the lines that begin with a number.
    let lines = text.lines().filter_map(|line| {
        let (index, meaning) = line.split_once(' ')?;
        index.parse::<usize>().ok().map(|_| meaning.to_owned())
    });
    Ok(Ok(lines.collect()))
}

fn report(
    rows: &BTreeMap<String, Vec<(PathBuf, Outcome)>>,
    table: Option<&Path>,
) -> anyhow::Result<()> {
    let mut text = String::from(
        "| source | objects | words | interposed | unified | refused by glibc too | differences |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut total = [0usize; 6];
    let mut differences = Vec::new();
    for (group, outcomes) in rows {
        let count = |of: fn(&Outcome) -> usize| {
            outcomes.iter().map(|(_, outcome)| of(outcome)).sum::<usize>()
        };
        let line = [
            outcomes.len(),
            count(|outcome| if outcome.refused.is_some() { 0 } else { outcome.words }),
            count(|outcome| outcome.interposed),
            count(|outcome| outcome.unified),
            count(|outcome| usize::from(outcome.refused.is_some())),
            count(|outcome| outcome.differences.len()),
        ];
        total.iter_mut().zip(line).for_each(|(sum, value)| *sum += value);
        text += &row(group, &line);
        for (object, outcome) in outcomes {
            let name = object.file_name().unwrap_or_default().to_string_lossy();
            differences.extend(
                outcome
                    .differences
                    .iter()
                    .map(|difference| format!("{group}: {name}: {difference}")),
            );
            if let Some(reason) = &outcome.refused {
                eprintln!("not compared: {group}: {name}: {reason}");
            }
        }
    }
    text += &row("total", &total);
    print!("{text}");
    if let Some(path) = table {
        std::fs::write(path, &text)?;
    }
    for difference in differences.iter().take(40) {
        eprintln!("{difference}");
    }
    if !differences.is_empty() {
        bail!("{} words differ", differences.len());
    }
    Ok(())
}

fn row(name: &str, values: &[usize; 6]) -> String {
    let cells: Vec<String> = values.iter().map(usize::to_string).collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}

//! The table of results as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::bail;

use super::inputs::Source;
use super::{Outcome, Refusal};

/// The text above the table.
const PREFACE: &str = "\
# Every relocated word, beside glibc's

Each shared object of these wheels is relocated twice, in two processes: by glibc, which opens a copy of the file whose dynamic
section has no constructors, and by this loader, up to the phase before publication. Then every word that a relocation of the
file writes is compared by its meaning: the object that it points into and the offset there, or for thread-local references the
module and the offset in its block. The relocations are enumerated by goblin, a parser that is not the loader's. Both processes
load libpython first.

```sh
pip download --no-deps --only-binary=:all: --dest WHEELS NAME==VERSION ...
cargo xtask linker --differential WHEELS [FILE|DIR ...] --python LIBPYTHON --table docs/loader-differential.md
```

Some libraries find their needs only in a process that has loaded others before. They get them by `LD_LIBRARY_PATH`, which both
loaders heed. The command adds the libraries of the same wheel; whoever runs it adds others (torchvision's need torch's).
`GLIBC_TUNABLES` gives glibc room for the thread-local data of allocators. The table is for CPython 3.11 and glibc 2.36.

- *objects*: shared objects with a dynamic section. Files with the same content count once.
- *words*: relocated words that were compared.
- *interposed*: references to functions that this loader answers for its replicas (`dlopen`, `__tls_get_addr`, `__cxa_atexit`,
  ...). Each holds the address of the loader's own function of that name, which is checked.
- *unified*: weak or unique definitions of the object itself (inline functions, type information) that this loader binds to the
  same name in a library that all domains share, because C++ wants one entity in a process. glibc binds them to the object's own
  definition, because the shared library was not opened globally.
- *by design*: words that are bound differently on purpose. First, the object's own definition of a name that the program, here
  a Rust program with libgcc_s, has too: a domain's definitions come before all of the program's except the C library's. Second,
  one of several unique definitions of a name (STB_GNU_UNIQUE): glibc takes the definition that was looked up first, this loader the
  one that was loaded first. Third, functions of objects that glibc opens only lazily because some are missing: glibc binds them when
  they are called.
- *refused*: objects that glibc does not open on its own, or that this loader refuses on purpose. The reasons follow the table.
- *differences*: everything else. There is none.

";

/// Prints the table and writes the page if a path is given. Returns an error if a word differs.
pub(super) fn write(rows: &[(Source, Vec<Outcome>)], page: Option<&Path>) -> anyhow::Result<()> {
    let mut table = String::from(
        "| source | version | objects | words | interposed | unified | by design | refused | differences |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut total = [0usize; 7];
    let mut differences = Vec::new();
    // For each source and reason: the first object, and the number of further ones.
    let mut refusals: BTreeMap<(&str, String), (String, usize)> = BTreeMap::new();
    for (source, outcomes) in rows {
        let count = |of: fn(&Outcome) -> usize| -> usize { outcomes.iter().map(of).sum::<usize>() };
        let line = [
            outcomes.len(),
            count(|outcome| if outcome.refused.is_some() { 0 } else { outcome.words }),
            count(|outcome| outcome.interposed),
            count(|outcome| outcome.unified),
            count(|outcome| outcome.designed),
            count(|outcome| usize::from(outcome.refused.is_some())),
            count(|outcome| outcome.differences.len()),
        ];
        total.iter_mut().zip(line).for_each(|(sum, value)| *sum += value);
        row(&mut table, &source.name, &source.version, &line)?;
        for (object, outcome) in source.objects.iter().zip(outcomes) {
            let name = object.file_name().unwrap_or_default().to_string_lossy();
            differences.extend(
                outcome.differences.iter().map(|text| format!("{} {name}: {text}", source.name)),
            );
            if let Some(Refusal { glibc, ours }) = &outcome.refused {
                let says = |answer: &Option<String>| answer.clone().unwrap_or("opens it".into());
                let (glibc, ours) = (says(glibc), says(ours));
                let first = || (format!("`{name}`: glibc: {glibc}; this loader: {ours}"), 0);
                let reason = ours.split_once(": refused: ").map_or(glibc.as_str(), |(_, why)| why);
                let entry = refusals.entry((&source.name, reason.to_owned()));
                entry.and_modify(|(_, more)| *more += 1).or_insert_with(first);
            }
        }
    }
    row(&mut table, "**total**", "", &total)?;
    let mut text = table;
    if !refusals.is_empty() {
        writeln!(text, "\nNot compared:\n")?;
        for ((source, _), (first, more)) in &refusals {
            let more = if *more > 0 { format!(" ({more} more so)") } else { String::new() };
            writeln!(text, "- {source} {first}{more}")?;
        }
    }
    print!("{text}");
    if let Some(path) = page {
        std::fs::write(path, format!("{PREFACE}{text}"))?;
    }
    differences.iter().take(40).for_each(|difference| eprintln!("{difference}"));
    if !differences.is_empty() {
        bail!("{} words differ", differences.len());
    }
    Ok(())
}

fn row(
    table: &mut String,
    name: &str,
    version: &str,
    values: &[usize; 7],
) -> Result<(), std::fmt::Error> {
    let cells: Vec<String> = values.iter().map(usize::to_string).collect();
    writeln!(table, "| {name} | {version} | {} |", cells.join(" | "))
}

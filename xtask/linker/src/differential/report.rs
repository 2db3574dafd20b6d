//! The table of results as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::bail;

use super::inputs::Source;
use super::{Outcome, Refusal};

/// What stands above the table.
const PREFACE: &str = "\
# Every relocated word, beside glibc's

Each shared object of these wheels is relocated twice, in two processes: by glibc, which opens a copy
of the file whose constructors are taken out of its dynamic section, and by this loader, up to the
phase before anybody sees the replica. Then every word that a relocation of the file writes is
compared by its meaning: the object that it points into and the offset there, for thread-local
references the module and the offset in its block. Relocations are enumerated by a parser that is
not the loader's (goblin). In both processes libpython was loaded before.

```sh
pip download --no-deps --only-binary=:all: --dest WHEELS NAME==VERSION ...
cargo xtask linker --differential WHEELS [FILE|DIR ...] --python LIBPYTHON --table docs/loader-differential.md
```

Libraries that find their needs only in a process that has loaded others before get them by
`LD_LIBRARY_PATH`, which both loaders heed: those of the same wheel by themselves, others by whoever runs the
command (torchvision's need torch's). glibc is given room for thread-local data of allocators
(`GLIBC_TUNABLES`). Below: CPython 3.11, glibc 2.36.

- *objects*: shared objects with a dynamic section; files with the same content count once.
- *words*: relocated words that were compared.
- *interposed*: references to the functions that this loader answers for its replicas (`dlopen`,
  `__tls_get_addr`, `__cxa_atexit`, ...); each holds the address of the loader's own function of that
  name, which is checked.
- *unified*: weak or unique definitions (inline functions, type information) of the object itself for
  which ours binds to the same name in a library that is shared by all domains, as C++ wants one
  entity of a process (`loader/src/scope.rs`), and glibc binds to the object's own since the shared
  one was not opened globally.
- *by design*: what is bound otherwise on purpose. The object's own definition of a name that the
  program, here a Rust one with libgcc_s, has too: a domain's definitions come before all of the program's but
  the C library's. Of several unique definitions of a name (STB_GNU_UNIQUE) that of another object: glibc
  takes the one that was looked up first, this loader the one that was loaded first. And functions of objects
  that glibc opens only lazily, as some are missing: it binds them when they are called.
- *refused*: objects that glibc does not open on its own, or that this loader refuses on purpose; the reasons
  follow the table.
- *differences*: all else. There is none.

";

/// Prints the table and writes the page where one is wanted; an error if a word differs.
pub(super) fn write(rows: &[(Source, Vec<Outcome>)], page: Option<&Path>) -> anyhow::Result<()> {
    let mut table = String::from(
        "| source | version | objects | words | interposed | unified | by design | refused | differences |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut total = [0usize; 7];
    let mut differences = Vec::new();
    // Of each source, by reason: the first object, and how many more.
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

//! `hydrozoa bench --memory`: the memory of a further interpreter, by owners.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use hydrozoa::Interpreter;
use hydrozoa::memory::{InterpreterMemory, Package};
use hydrozoa_measure::package::Model;
use serde_json::{Value, json};

use super::Options;

/// So many packages are listed.
const LISTED: usize = 10;

pub fn run(options: &Options) -> Result<i32> {
    let pool = options.choice.pool(1)?;
    let path = options.package.as_deref();
    let location = options.map_location.as_deref();
    let model = path.map(|path| Model::open(&pool, path, location)).transpose()?;
    let work = |index: usize| -> Result<Interpreter> {
        let session = pool.acquire_on(index)?;
        if let Some(code) = &options.run {
            session.run(code, "<string>")?;
        }
        if let Some(model) = &model {
            model.call(&session)?;
        }
        Ok(session.interpreter().clone())
    };
    let first = work(0)?;
    let before = first.memory()?;
    drop(first);
    pool.resize(2)?;
    let further = work(1)?;
    let memory = further.memory()?;
    let malloc = memory.unattributed() as i64 - before.unattributed() as i64;
    let packages = further.packages()?;
    drop(further);
    if !options.samples {
        print(&memory, malloc, &packages);
    }
    let json = serde_json::to_string_pretty(&as_json(&memory, malloc, &packages))?;
    if options.samples {
        say!("{json}");
    } else if let Some(path) = &options.json {
        fs::write(path, json).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(0)
}

fn print(memory: &InterpreterMemory, malloc: i64, packages: &[Package]) {
    say!("a further interpreter:");
    say!("{memory}");
    say!("{:>9.2} MiB  malloc has grown by while it started and worked", mib(malloc));
    say!();
    say!(
        "packages with the largest objects (sum of sys.getsizeof; without what native code has from malloc):"
    );
    for package in packages.iter().take(LISTED) {
        let name = package.name.as_deref().unwrap_or("objects that no module leads to");
        say!("{:>9.2} MiB  {name}: {} objects", mib(package.bytes as i64), package.objects);
    }
}

fn mib(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Private memory of a further interpreter in bytes: at its own addresses, and what malloc has grown by meanwhile. `libraries`
/// has that of each replica, by its path, and `packages` the estimated size of each package's objects. Those of no module have
/// an empty name.
fn as_json(memory: &InterpreterMemory, malloc: i64, packages: &[Package]) -> Value {
    let libraries = memory.libraries.iter();
    let libraries: BTreeMap<_, _> =
        libraries.map(|library| (library.path.display().to_string(), library.private)).collect();
    let name = |package: &Package| package.name.clone().unwrap_or_default();
    let packages: BTreeMap<_, _> =
        packages.iter().map(|package| (name(package), package.bytes)).collect();
    json!({
        "private": memory.private(),
        "malloc": malloc,
        "replicas": memory.replicas(),
        "raw_heap": memory.raw_heap,
        "arenas": memory.arenas,
        "native_heap": memory.native_heap,
        "mapped": memory.mapped,
        "stacks": memory.stacks,
        "page_tables": memory.page_tables,
        "mappings": memory.mappings,
        "of_files": memory.of_files,
        "proportional": memory.proportional,
        "libraries": libraries,
        "packages": packages,
    })
}

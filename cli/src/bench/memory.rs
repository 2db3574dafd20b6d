//! `hydrozoa bench --memory`: what a further interpreter takes, by owners.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use hydrozoa::Interpreter;
use hydrozoa::memory::{Memory, Package};
use hydrozoa_measure::package::Model;
use serde::{Deserialize, Serialize};

use super::Options;

/// So many packages are listed.
const LISTED: usize = 10;

/// Private memory of a further interpreter in bytes: at its own addresses, and what malloc has grown by meanwhile.
#[derive(Serialize, Deserialize)]
pub struct Further {
    pub private: u64,
    pub malloc: i64,
    replicas: u64,
    raw_heap: u64,
    arenas: u64,
    cxx_objects: u64,
    mapped: u64,
    stacks: u64,
    page_tables: u64,
    mappings: u64,
    of_files: u64,
    proportional: u64,
    /// Of each replica, by its path.
    libraries: BTreeMap<String, u64>,
    /// What the objects of each package take, by an estimate. Without a name: of no module.
    packages: BTreeMap<String, u64>,
}

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
    let further = Further::new(&memory, malloc, &packages);
    let json = serde_json::to_string_pretty(&further)?;
    if options.samples {
        say!("{json}");
    } else if let Some(path) = &options.json {
        fs::write(path, json).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(0)
}

fn print(memory: &Memory, malloc: i64, packages: &[Package]) {
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

impl Further {
    fn new(memory: &Memory, malloc: i64, packages: &[Package]) -> Self {
        let path = |library: &hydrozoa::memory::Library| library.path.display().to_string();
        let name = |package: &Package| package.name.clone().unwrap_or_default();
        let libraries = memory.libraries.iter();
        Self {
            private: memory.private(),
            malloc,
            replicas: memory.replicas(),
            raw_heap: memory.raw_heap,
            arenas: memory.arenas,
            cxx_objects: memory.cxx_objects,
            mapped: memory.mapped,
            stacks: memory.stacks,
            page_tables: memory.page_tables,
            mappings: memory.mappings,
            of_files: memory.of_files,
            proportional: memory.proportional,
            libraries: libraries.map(|library| (path(library), library.private)).collect(),
            packages: packages.iter().map(|package| (name(package), package.bytes)).collect(),
        }
    }
}

//! Loading a library once more: a further replica, and glibc's `dlopen` of a fresh copy of the file.
//!
//! Both load files without constructors ([`without_constructors`]): constructors belong to the library and take the
//! same time under any loader. Each round unloads its copies again. Beside the ratio, the output has the time that
//! the kernel alone takes for as much private memory ([`Floor`]).

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hydrozoa_loader::{Class, Domain, Loader, OpenFlags, Policy};

use crate::fixture::{Folder, SystemLibrary, without_constructors};
use crate::floor::Floor;
use crate::phases::Phases;
use crate::rounds::Rounds;

#[derive(clap::Args)]
pub struct Options {
    /// The library
    library: PathBuf,
    /// The library that every domain opens first, with its symbols for all: the libpython of an extension
    #[arg(long)]
    after: Vec<PathBuf>,
    /// Libraries that the process has once; glibc loads them before the measurement
    #[arg(long)]
    shared: Vec<PathBuf>,
    /// At most this share of glibc's time
    #[arg(long, default_value_t = 0.5)]
    promised: f64,
    /// How many rounds
    #[arg(long, default_value_t = 41)]
    rounds: usize,
}

pub fn run(options: &Options) -> Result<()> {
    let folder = Folder::new("replicas")?;
    let phases = Phases::collect()?;
    let name = options.library.file_name().context("the library's path has no file name")?;
    let library = folder.path().join(name);
    without_constructors(&options.library, &library)?;
    let mut before = Vec::new();
    for path in &options.after {
        let copy = folder.path().join(path.file_name().context("a path without a file name")?);
        without_constructors(path, &copy)?;
        // The copies that glibc loads find these symbols in the global scope.
        SystemLibrary::open(&copy, libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
        before.push(copy);
    }
    for path in &options.shared {
        SystemLibrary::open(path, libc::RTLD_LAZY | libc::RTLD_GLOBAL)?;
    }
    // Nothing else is loaded once more, as by glibc.
    let others = Policy::default().with("*", Class::System, "it is not measured");
    let policy = before.iter().chain([&library]).fold(others, |policy, path| {
        policy.with(&path.to_string_lossy(), Class::Replicate, "it is measured")
    });
    let loader = Loader::builder().policy(policy).build()?;
    let domain = || -> Result<Domain> {
        let domain = loader.domain("measured").build()?;
        for path in &before {
            // SAFETY: the measured library is opened as an interpreter opens it; nothing calls it.
            unsafe { domain.open(path, OpenFlags::NOW | OpenFlags::GLOBAL)? };
        }
        Ok(domain)
    };
    // The first replica: the loader makes all others with its plans.
    let first = domain()?;
    // SAFETY: as above.
    unsafe { first.open(&library, OpenFlags::NOW)? };
    let mut floor = Floor::new(first.inspect(&library)?.cost.at_load())?;
    let mut copies = 0;
    let rounds = Rounds::measure(
        options.rounds,
        || {
            let domain = domain()?;
            phases.start();
            let start = Instant::now();
            // SAFETY: as above.
            unsafe { domain.open(&library, OpenFlags::NOW)? };
            let elapsed = start.elapsed();
            phases.end();
            // SAFETY: nothing of the domain has run.
            unsafe { domain.close() };
            Ok(elapsed)
        },
        || {
            copies += 1;
            let copy = folder.path().join(format!("copy-{copies}.so"));
            fs::copy(&library, &copy)?;
            let start = Instant::now();
            let opened = SystemLibrary::open(&copy, libc::RTLD_NOW | libc::RTLD_LOCAL)?;
            let elapsed = start.elapsed();
            // SAFETY: nothing of it has run.
            unsafe { opened.close() };
            fs::remove_file(&copy)?;
            Ok(elapsed)
        },
    )?;
    for turn in 0..options.rounds {
        // Every other load comes after glibc's turn, which leaves other bytes in the caches.
        if turn % 2 == 1 {
            let copy = folder.path().join("copy.so");
            fs::copy(&library, &copy)?;
            fs::remove_file(&copy)?;
        }
        floor.measure()?;
    }
    phases.report();
    floor.report(Duration::from_secs_f64(rounds.medians().1));
    let what = format!("a further replica of {}", name.to_string_lossy());
    rounds.report(&what, 1e-6, "us", options.promised)
}

//! Whether a load costs more when there are many replicas. The loader indexes what it publishes. If it rebuilt an
//! index at every load, the loads of all domains together would take quadratic time.

use std::fs;
use std::time::Instant;

use anyhow::{Result, ensure};
use hydrozoa_loader::{Loader, OpenFlags};
use hydrozoa_measure::samples::median;

use crate::fixture::Folder;

const SOURCE: &str = "
extern \"C\" {
int value = 1;
int *place = &value;
int get() { return *place; }
}
";

/// The largest allowed ratio of a load of the last quarter of the domains to one of the first quarter.
const PROMISED: f64 = 1.5;

#[derive(clap::Args)]
pub struct Options {
    /// How many domains
    #[arg(long, default_value_t = 64)]
    domains: usize,
    /// How many libraries each of them loads
    #[arg(long, default_value_t = 100)]
    libraries: usize,
    /// How often all domains are loaded and closed again
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn run(options: &Options) -> Result<()> {
    ensure!(options.domains >= 8, "--domains must be at least 8: the run compares quarters");
    let folder = Folder::new("many")?;
    let library = folder.compile("libsmall.so", SOURCE, &[])?;
    let copies = (0..options.libraries)
        .map(|index| {
            let copy = folder.path().join(format!("libsmall-{index}.so"));
            fs::copy(&library, &copy).map(|_| copy)
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    let loader = Loader::builder().build()?;
    let mut times = vec![Vec::new(); options.domains];
    for round in 0..=options.rounds {
        let mut domains = Vec::new();
        for times in &mut times {
            let domain = loader.domain("one of many").build()?;
            let start = Instant::now();
            for copy in &copies {
                // SAFETY: copies of one library that is made for this; they have only state of their own.
                unsafe { domain.open(copy, OpenFlags::NOW)? };
            }
            // The first round makes the images and plans, so it does not count.
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e6 / copies.len() as f64);
            }
            domains.push(domain);
        }
        for domain in domains {
            // SAFETY: nothing of the domain runs, and nothing was taken from it.
            unsafe { domain.close() };
        }
    }
    let each: Vec<f64> = times.iter().map(|times| median(times)).collect();
    for (from, part) in each.chunks(options.domains / 8).enumerate() {
        let first = from * (options.domains / 8) + 1;
        println!(
            "domains {first:3} to {:3}: {:.1} us a load",
            first + part.len() - 1,
            median(part)
        );
    }
    let quarter = options.domains / 4;
    let (first, last) = (median(&each[..quarter]), median(&each[options.domains - quarter..]));
    let ratio = last / first;
    println!(
        "{} domains of {} replicas: a load of the last quarter takes {ratio:.2} times one of the first \
         (promised: at most {PROMISED})",
        options.domains, options.libraries
    );
    ensure!(ratio <= PROMISED, "with many replicas a load takes {ratio:.2} times as long");
    Ok(())
}

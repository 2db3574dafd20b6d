//! Code exists once in memory, however many interpreters run it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use hydrozoa::Pool;
use hydrozoa_tests::{mappings, place};

const INTERPRETERS: usize = 4;

/// The libraries that the test looks at, by the beginnings of their file names.
const LIBRARIES: [&str; 3] = ["libpython3.", "libtorch_python.so", "libtorch_cpu.so"];

pub fn shared_text() -> Result<()> {
    let pool = Pool::builder().interpreters(INTERPRETERS).venv(place::venv()?).build()?;
    let mut bases: BTreeMap<PathBuf, Vec<u64>> = BTreeMap::new();
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        session.run("import torch, torchvision\ntorchvision.models.resnet18()(torch.ones(1, 3, 64, 64)).sum().backward()", "work.py")?;
        for replica in interpreter.domain().replicas() {
            let name = replica.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if LIBRARIES.iter().any(|library| name.starts_with(library)) {
                bases.entry(replica.path.clone()).or_default().push(replica.base as u64);
            }
        }
    }
    ensure!(bases.len() == LIBRARIES.len(), "replicas found: {bases:?}");
    let mappings = mappings::own()?;
    for (path, bases) in &bases {
        ensure!(bases.len() == INTERPRETERS, "{}: {} replicas", path.display(), bases.len());
        let constant = mappings::read_only_ranges(path)?;
        let mut touched: BTreeSet<u64> = BTreeSet::new();
        let mut frames: BTreeSet<u64> = BTreeSet::new();
        let mut proportional = 0;
        let mut seen = 0;
        for base in bases {
            for segment in &constant {
                let range = base + segment.start..base + segment.end;
                // Pages are counted from the base, so that the same page of two replicas is the same number.
                let first = segment.start / mappings::PAGE;
                for (page, frame) in mappings::present_pages(&range)? {
                    touched.insert(first + page);
                    frames.insert(frame);
                }
                for mapping in mappings.iter().filter(|mapping| {
                    mapping.range.start < range.end && range.start < mapping.range.end
                }) {
                    let inside =
                        range.start <= mapping.range.start && mapping.range.end <= range.end;
                    ensure!(
                        inside,
                        "{}: a mapping holds constant and other pages: {mapping:?}",
                        path.display()
                    );
                    ensure!(
                        mapping.anonymous == 0,
                        "{}: own copies of constant pages: {mapping:?}",
                        path.display()
                    );
                    ensure!(
                        mapping.dirty == 0,
                        "{}: dirty constant pages: {mapping:?}",
                        path.display()
                    );
                    proportional += mapping.proportional;
                    seen += 1;
                }
            }
        }
        let union = touched.len() as u64 * mappings::PAGE / 1024;
        println!(
            "{}: {seen} mappings, Pss {proportional} KiB, pages touched by any {union} KiB",
            path.display()
        );
        // Pss is lower if other processes map the file too; physical memory is not.
        if frames.iter().any(|frame| *frame != 0) {
            let physical = frames.len() as u64 * mappings::PAGE / 1024;
            println!("{}: {physical} KiB of physical memory", path.display());
            ensure!(
                frames.len() <= touched.len(),
                "{}: the pages of four replicas lie in {physical} KiB of physical memory, those that any touched are {union} KiB",
                path.display()
            );
        } else {
            println!(
                "{}: without CAP_SYS_ADMIN its physical pages cannot be counted",
                path.display()
            );
        }
        ensure!(union > 1024, "{}: hardly any page is present: {union} KiB", path.display());
        ensure!(
            proportional as f64 <= 1.05 * union as f64,
            "{}: Pss of all text mappings is {proportional} KiB, the pages that any of them touched {union} KiB",
            path.display()
        );
    }
    Ok(())
}

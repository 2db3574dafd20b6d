//! Packages of real models in several interpreters: the bits, and the memory.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hydrozoa::memory::Usage;
use hydrozoa::{Pool, Session, Tensor};
use hydrozoa_measure::drive::drive;
use hydrozoa_measure::models::{ExportedModel, manifest};
use hydrozoa_measure::package::MODEL;
use hydrozoa_tests::place;

const INTERPRETERS: usize = 4;

/// The private memory that an interpreter with resnet18 may write: module objects, compiled code, and the first call's
/// caches. The weights of 45 MB are elsewhere. Measured: 3 to 6 MB. Without sharing it would be 45 MB more.
const PRIVATE_LIMIT: i64 = 16 << 20;

fn entry(name: &str) -> Result<ExportedModel> {
    let entries = manifest(&place::models()?.join("manifest.json"))?;
    entries.into_iter().find(|entry| entry.name == name).with_context(|| format!("no model {name}"))
}

fn pool() -> Result<Pool> {
    let pool = Pool::builder().interpreters(INTERPRETERS).venv(place::venv()?).build()?;
    for interpreter in pool.interpreters() {
        interpreter
            .session()
            .run("import torch, torchvision\ntorch.set_num_threads(1)", "prepare.py")?;
    }
    Ok(pool)
}

/// Addresses of all parameters and buffers of a model.
fn addresses(session: &Session, model: &hydrozoa::Object<'_>) -> Result<Vec<u64>> {
    let list = session
        .eval("lambda model: [t.data_ptr() for t in [*model.parameters(), *model.buffers()]]")?;
    Ok(list.call((model,))?.extract()?)
}

pub fn weights_exist_once() -> Result<()> {
    let entry = entry("resnet18")?;
    let pool = pool()?;
    let package = pool.load_package(&entry.package)?;
    let model = package.load_pickle(MODEL.0, MODEL.1)?;
    let cases = entry.cases()?;
    let mut first: Option<Vec<u64>> = None;
    let mut watchers = Vec::new();
    for interpreter in pool.interpreters() {
        let before = Usage::of_process()?;
        let output: Tensor =
            model.to_object(&interpreter.session())?.call((cases.input(0),))?.extract()?;
        ensure!(
            cases.is_right(0, &output)?,
            "{}: not the bits of plain python",
            interpreter.name()
        );
        // When the session ends, malloc returns the memory that the load and the call used temporarily.
        let grown = Usage::of_process()? - before;
        println!("{}: private memory grew by {} KiB", interpreter.name(), grown.private >> 10);
        let session = interpreter.session();
        let object = model.to_object(&session)?;
        let here = addresses(&session, &object)?;
        ensure!(here.len() > 100, "resnet18 has {} tensors?", here.len());
        match &first {
            None => first = Some(here),
            Some(first) => {
                ensure!(*first == here, "{}: weights lie elsewhere", interpreter.name());
                ensure!(grown.private < PRIVATE_LIMIT, "{}: {grown:?}", interpreter.name());
            }
        }
        // The watch sees whether the model is alive, and does not keep it alive.
        let watch = session.run("import weakref, gc\nwatched = []", "watch.py")?;
        watch
            .getattr("watched")?
            .call_method("append", (session.import("weakref")?.call_method("ref", (&object,))?,))?;
        session.import("builtins")?.setattr("hydrozoa_watched", watch.getattr("watched")?)?;
        watchers.push(interpreter.clone());
    }
    let mapped = |path: &std::path::Path| -> Result<bool> {
        Ok(hydrozoa_tests::mappings::own()?
            .iter()
            .any(|mapping| mapping.path.as_deref() == Some(path)))
    };
    ensure!(mapped(&entry.package)?, "the weights are not the package's own pages");
    drop(model);
    drop(package);
    for interpreter in &watchers {
        interpreter.drain();
        let session = interpreter.session();
        let alive: bool = session
            .run("import builtins, gc\ngc.collect()\nalive = builtins.hydrozoa_watched[0]() is not None", "check.py")?
            .getattr("alive")?
            .extract()?;
        ensure!(!alive, "{}: the dropped model is still alive", interpreter.name());
    }
    ensure!(!mapped(&entry.package)?, "the dropped package's pages are still mapped");
    Ok(())
}

pub fn right_from_threads() -> Result<()> {
    let pool = pool()?;
    for name in ["mobilenet_v3_small", "resnet18"] {
        let entry = entry(name)?;
        let cases = entry.cases()?;
        let package = pool.load_package(&entry.package)?;
        let model = package.load_pickle(MODEL.0, MODEL.1)?;
        let samples = drive(INTERPRETERS, Duration::from_secs(3), |_| {
            Ok::<_, hydrozoa::Error>(|index| {
                let output: Tensor = model.call((cases.input(index),))?.extract()?;
                cases.is_right(index, &output)
            })
        })?;
        ensure!(
            samples.wrong == 0,
            "{name}: {} of {} outputs are wrong",
            samples.wrong,
            samples.latencies_us.len()
        );
        ensure!(
            samples.latencies_us.len() > INTERPRETERS,
            "{name}: only {} calls",
            samples.latencies_us.len()
        );
        for interpreter in pool.interpreters() {
            ensure!(model.is_loaded(&interpreter), "{name}: {} was never used", interpreter.name());
        }
    }
    Ok(())
}

//! Our side: a pool whose interpreters use one model on the device.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use hydrozoa::{Pool, Session};
use hydrozoa_measure::orders;
use hydrozoa_measure::package::{EXAMPLE, MODEL};

use super::{Options, SCRIPT};

pub fn serve(options: &Options, folder: &Path) -> Result<()> {
    let count = *options.counts.first().context("--counts names no number of interpreters")?;
    let pool = pool(options, count)?;
    let package = pool.load_package(folder.join("encoder.pt"))?;
    let model = package.load_pickle_mapped(MODEL.0, MODEL.1, options.device.as_str())?;
    let example = package.load_pickle_mapped(EXAMPLE.0, EXAMPLE.1, "cpu")?;
    let sessions: Vec<Session> =
        (0..count).map(|index| pool.acquire_on(index)).collect::<Result<_, _>>()?;
    let mut callers = Vec::new();
    let mut addresses = Vec::new();
    for session in &sessions {
        let script = session.run(SCRIPT, "gpu.py")?;
        session.import("torch")?.call_method("set_num_threads", (1,))?;
        let expected =
            script.getattr("expected")?.call((folder.to_str().context("a folder in UTF-8")?,))?;
        let object = model.to_object(session)?;
        let weights: Vec<u64> = script.getattr("addresses")?.call((&object,))?.extract()?;
        addresses.push(weights);
        let arguments = (object, example.to_object(session)?, expected, options.device.as_str());
        let caller = script.getattr("Caller")?.call(arguments)?;
        for _ in 0..3 {
            ensure!(
                caller.call(())?.truth()?,
                "the output differs from plain python's on the device"
            );
        }
        callers.push(caller);
    }
    ensure!(
        addresses.iter().all(|weights| *weights == addresses[0]),
        "the model was uploaded more than once: its weights have other addresses in other interpreters"
    );
    orders::answer(|_, thread| {
        let caller = &callers[thread];
        Ok(move |_| Ok(caller.call(())?.truth()?))
    })
}

fn pool(options: &Options, interpreters: usize) -> Result<Pool> {
    let mut builder = Pool::builder().interpreters(interpreters);
    if let Some(venv) = &options.venv {
        builder = builder.venv(venv);
    }
    if let Some(python) = &options.python {
        builder = builder.python(python);
    }
    Ok(builder.build()?)
}

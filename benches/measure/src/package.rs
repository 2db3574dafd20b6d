//! Measuring one package on N interpreters.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use hydrozoa::{Movable, Object, Pool, Session};

use crate::drive::drive;
use crate::effort::Counters;
use crate::samples::Samples;

/// The model's resource in a package, and the resource with its arguments, a tuple. torch::deploy's own examples use
/// these names.
pub const MODEL: (&str, &str) = ("model", "model.pkl");
/// See [`MODEL`].
pub const EXAMPLE: (&str, &str) = ("model", "example.pkl");

/// Calls the model and waits until its result is there: a call that uses a GPU only queues work. If torch.cuda is not
/// initialized, no imported module has used a GPU.
const CALL: &str = "
import sys
def call(model, arguments):
    result = model(*arguments)
    cuda = getattr(sys.modules.get('torch'), 'cuda', None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()
    return result
";

/// The model of a package, and its example.
pub struct Model {
    model: Movable,
    example: Movable,
}

impl Model {
    /// Opens a package for a pool. `map_location` moves model and example to a device, as `torch.load`'s does.
    ///
    /// # Errors
    ///
    /// The package has no such resources, or they cannot be loaded.
    pub fn open(pool: &Pool, path: &Path, map_location: Option<&str>) -> Result<Self> {
        let package =
            pool.load_package(path).with_context(|| format!("opening {}", path.display()))?;
        let load = |(name, resource)| match map_location {
            Some(device) => package.load_pickle_mapped(name, resource, device),
            None => package.load_pickle(name, resource),
        };
        Ok(Self { model: load(MODEL)?, example: load(EXAMPLE)? })
    }

    /// Loads the model into the session's interpreter and calls it a few times with its example.
    ///
    /// # Errors
    ///
    /// An exception of the load or the model.
    pub fn call(&self, session: &Session) -> hydrozoa::Result<()> {
        self.prepare(session).map(drop)
    }

    /// A function that calls the model, and its arguments, after the first calls.
    fn prepare<'s>(
        &self,
        session: &'s Session,
    ) -> hydrozoa::Result<(Object<'s>, (Object<'s>, Object<'s>))> {
        let call = session.run(CALL, "call.py")?.getattr("call")?;
        let (model, example) = (self.model.to_object(session)?, self.example.to_object(session)?);
        // The first calls of a model build caches (mkldnn's primitives). A measurement leaves them out.
        for _ in 0..3 {
            call.call((&model, &example))?;
        }
        Ok((call, (model, example)))
    }
}

/// Calls the package's model with its example from `threads` threads, spread over the pool's interpreters.
///
/// `map_location` moves model and example to a device, as `torch.load`'s does. A call that uses CUDA ends when the
/// device has finished.
///
/// Each thread keeps one session. The results are not compared: the package does not contain the right ones.
///
/// # Errors
///
/// The package has no such resources, or the model raises.
pub fn measure(
    pool: &Pool,
    path: &Path,
    map_location: Option<&str>,
    threads: usize,
    duration: Duration,
) -> Result<Samples> {
    let model = Model::open(pool, path, map_location)?;
    let sessions: Vec<Session> = (0..threads)
        .map(|thread| pool.acquire_on(thread % pool.interpreters().len()))
        .collect::<Result<_, _>>()?;
    let counters = Counters::of(std::process::id());
    let mut samples = drive(threads, duration, |thread| {
        let session = &sessions[thread];
        let (call, arguments) = model.prepare(session)?;
        Ok::<_, hydrozoa::Error>(move |_| call.call((&arguments.0, &arguments.1)).map(|_| true))
    })?;
    if let Some(counters) = counters {
        counters.end(&mut samples.effort);
    }
    samples.processes = vec![std::process::id()];
    samples.measure_memory()?;
    Ok(samples)
}

//! Interpreters of the Python that is sealed. They compile its modules, and marshal what the start reads.

use super::error::CollectError;
use super::tree::Module;
use hydrozoa::python::Installation;
use hydrozoa::{Object, Pool, Session};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The path at which a running application sees its own files.
pub(crate) const ROOT: &str = "/<sealed>";

/// How many files an interpreter compiles before it asks for more.
const BATCH: usize = 16;

/// Interpreters of one Python.
pub(crate) struct Workshop {
    pool: Pool,
    version: String,
    suffixes: Vec<String>,
}

/// The results of compiling.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    /// Marshalled code by the paths of the modules.
    pub(super) codes: BTreeMap<String, Vec<u8>>,
    /// Paths of those that do not compile, each with the reason.
    pub(super) refused: Vec<(String, String)>,
}

impl Workshop {
    /// An interpreter for each processor.
    pub(crate) fn start(installation: &Installation) -> Result<Self, CollectError> {
        let count = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // No variable of this process has a say in the bytes. Sets in code are written in the order of their hashes.
        let pool = Pool::builder()
            .python(installation.library())
            .interpreters(count)
            .environment::<PathBuf, PathBuf>([])
            .hash_seed(0)
            .write_bytecode(false)
            .build()?;
        let (version, suffixes) = {
            let session = pool.acquire()?;
            sealing(&session)?.call_method("facts", ())?.extract()?
        };
        Ok(Self { pool, version, suffixes })
    }

    /// The Python's version, such as `3.12.8`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The endings of extension modules, in the order in which imports try them.
    pub(crate) fn suffixes(&self) -> &[String] {
        &self.suffixes
    }

    /// Compiles the modules, on every processor.
    pub(super) fn compile(&self, modules: &[Module]) -> Result<Compiled, CollectError> {
        let next = AtomicUsize::new(0);
        let parts: Vec<Result<Compiled, CollectError>> = thread::scope(|scope| {
            let start = |interpreter: &hydrozoa::Interpreter| {
                let session = interpreter.session();
                let next = &next;
                scope.spawn(move || compile_some(&session, modules, next))
            };
            let threads: Vec<_> = self.pool.interpreters().iter().map(start).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let mut all = Compiled::default();
        for part in parts {
            let part = part?;
            all.codes.extend(part.codes);
            all.refused.extend(part.refused);
        }
        all.refused.sort();
        Ok(all)
    }

    /// Calls `action` with a session and the module of `sealing.py` in it.
    pub(super) fn with<R>(
        &self,
        action: impl FnOnce(&Session, &Object<'_>) -> hydrozoa::Result<R>,
    ) -> Result<R, CollectError> {
        let session = self.pool.acquire()?;
        Ok(action(&session, &sealing(&session)?)?)
    }
}

fn sealing(session: &Session) -> hydrozoa::Result<Object<'_>> {
    session.run(include_str!("../../python/sealing.py"), "sealing.py")
}

fn compile_some(
    session: &Session,
    modules: &[Module],
    next: &AtomicUsize,
) -> Result<Compiled, CollectError> {
    let sealing = sealing(session)?;
    let mut compiled = Compiled::default();
    loop {
        let begin = next.fetch_add(BATCH, Ordering::Relaxed).min(modules.len());
        let batch = &modules[begin..(begin + BATCH).min(modules.len())];
        if batch.is_empty() {
            return Ok(compiled);
        }
        let files: Vec<(&str, String)> = batch
            .iter()
            .map(|module| {
                // The walk has refused names that are not UTF-8 below the directories that it was given.
                let file = module.file.to_str().ok_or_else(|| CollectError::Name {
                    path: module.file.clone(),
                    reason: "its path is not UTF-8",
                })?;
                Ok((file, format!("{ROOT}/{}", module.path)))
            })
            .collect::<Result<_, CollectError>>()?;
        let outcomes: Vec<(Vec<u8>, String)> =
            sealing.call_method("compile_files", (files,))?.extract()?;
        for (module, (code, reason)) in batch.iter().zip(outcomes) {
            match code.is_empty() {
                false => drop(compiled.codes.insert(module.path.clone(), code)),
                true => compiled.refused.push((module.path.clone(), reason)),
            }
        }
    }
}

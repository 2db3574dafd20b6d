//! Interpreters of the Python that is sealed. They compile its modules, and marshal what the start reads.

use super::error::CollectError;
use super::tree::Module;
use hydrozoa::python::Installation;
pub(crate) use hydrozoa::sealed::ROOT;
use hydrozoa::{Object, Pool, Session};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn workshop() -> (Installation, Workshop) {
        let installation = hydrozoa::python::find(None).unwrap();
        let workshop = Workshop::start(&installation).unwrap();
        (installation, workshop)
    }

    /// The modules of some directories of the standard library.
    fn modules(installation: &Installation) -> Vec<Module> {
        let library = installation.prefix().join(format!("lib/python3.{}", installation.minor()));
        let mut modules = Vec::new();
        for directory in ["asyncio", "email", "encodings", "json", "re", "unittest"] {
            let Ok(entries) = fs::read_dir(library.join(directory)) else { continue };
            for file in entries.map(|entry| entry.unwrap().path()) {
                let name = file.file_name().unwrap().to_str().unwrap();
                if name.ends_with(".py") {
                    modules.push(Module { path: format!("lib/{directory}/{name}"), file });
                }
            }
        }
        modules.sort_by(|one, other| one.path.cmp(&other.path));
        modules
    }

    #[test]
    fn code_is_equal_for_any_order_and_any_interpreter() {
        let (installation, workshop) = workshop();
        let mut modules = modules(&installation);
        assert!(modules.len() > 100, "{}", modules.len());
        let parallel = workshop.compile(&modules).unwrap();
        modules.reverse();
        let session = workshop.pool.acquire().unwrap();
        // Strings of imported modules are interned.
        session.import("asyncio").unwrap();
        let alone = compile_some(&session, &modules, &AtomicUsize::new(0)).unwrap();
        assert!(parallel.codes == alone.codes, "the bytes differ");
        assert_eq!(parallel.refused, []);
    }

    #[test]
    fn code_names_its_sealed_path_and_broken_modules_are_named() {
        let (_, workshop) = workshop();
        let folder = tempfile::tempdir().unwrap();
        let module = |name: &str, content: &[u8]| {
            let file = folder.path().join(name);
            fs::write(&file, content).unwrap();
            Module { path: format!("app/{name}"), file }
        };
        let latin = b"# -*- coding: latin-1 -*-\nname = '\xe9'\ndef f(): pass\n";
        let modules = [
            module("bad.py", b"print 1\n"),
            module("good.py", latin),
            module("old.pyc", b"from another version"),
        ];
        let Compiled { codes, refused } = workshop.compile(&modules).unwrap();
        assert_eq!(codes.keys().collect::<Vec<_>>(), ["app/good.py"]);
        assert_eq!(refused[0].0, "app/bad.py");
        assert!(refused[0].1.starts_with("SyntaxError: "), "{refused:?}");
        assert!(refused[1].1.contains("another version of Python"), "{refused:?}");
        let inner: Vec<String> = workshop
            .with(|session, _| {
                let code =
                    session.import("marshal")?.call_method("loads", (&codes["app/good.py"],))?;
                let inner = code.getattr("co_consts")?.get_item(1)?;
                [&code, &inner]
                    .map(|code| code.getattr("co_filename")?.extract())
                    .into_iter()
                    .collect()
            })
            .unwrap();
        assert_eq!(inner, ["/<sealed>/app/good.py"; 2]);
    }
}

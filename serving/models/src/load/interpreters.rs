//! The interpreters that a version's instances run in.

use crate::execution::Crashes;
use hydrozoa::{Builder, ImportProfile, Imports, Interpreter, Pool, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long an unloaded model's interpreters are waited for.
pub(crate) const CLOSE: Duration = Duration::from_secs(1);

/// One version may take over the interpreters of another version of the same model if these are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whether they run a package. A Python model leaves modules and changes that the next one would find.
    pub(crate) is_package: bool,
    pub(crate) count: usize,
    /// The virtual environment that the model names.
    pub(crate) environment: Option<PathBuf>,
    /// The ceiling of their memory.
    pub(crate) memory_limit: Option<usize>,
    /// The profile by which they import.
    pub(crate) imports: Option<String>,
    pub(crate) contain_crashes: bool,
    pub(crate) dense: Option<PathBuf>,
}

/// The interpreters of a version, one for each instance. They end with the last version that uses them.
pub(crate) struct Interpreters {
    model: String,
    settings: Settings,
    crashes: Arc<Crashes>,
    /// `None` at the end.
    pool: Option<Pool>,
}

impl Interpreters {
    /// Starts them. `builder` holds the rest of the settings.
    pub(crate) fn start(
        model: &str,
        builder: Builder,
        settings: Settings,
        profile: Option<ImportProfile>,
    ) -> Result<Self> {
        let crashes = Arc::new(Crashes::default());
        let tells = crashes.clone();
        let mut builder = builder
            .interpreters(settings.count)
            .on_crashed(move |interpreter, report| tells.tell(interpreter, report));
        if let Some(profile) = profile {
            builder = builder.imports(Imports::Profile(profile));
        }
        let pool = Some(builder.build()?);
        Ok(Self { model: model.to_owned(), settings, crashes, pool })
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("it is there until the end")
    }

    /// The keepers that learn of crashes in them.
    pub(crate) fn crashes(&self) -> &Arc<Crashes> {
        &self.crashes
    }

    /// Whether a version with these settings can run in them. One that is stuck would hold it up, and one that has crashed runs
    /// nothing.
    pub(crate) fn fits(&self, settings: &Settings) -> bool {
        let is_usable =
            |interpreter: &Interpreter| !interpreter.is_stuck() && !interpreter.has_crashed();
        self.settings == *settings && self.pool().interpreters().iter().all(is_usable)
    }

    /// Frees the remains of an ended version in them: modules of its package that refer to each other.
    pub(crate) fn sweep(&self) {
        if let Err(error) = self.collect() {
            tracing::warn!(model = self.model, "its interpreters were not swept: {error}");
        }
    }

    fn collect(&self) -> Result<()> {
        for interpreter in self.pool().interpreters().iter() {
            // One that is stuck may keep its GIL for ever, and one that has crashed runs nothing.
            if interpreter.is_stuck() || interpreter.has_crashed() {
                continue;
            }
            let session = self.pool().acquire_on(interpreter.index())?;
            session.interpreter().drain();
            session.import("gc")?.call_method("collect", ())?;
        }
        Ok(())
    }
}

impl Drop for Interpreters {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.pool.take().map(|pool| pool.close(CLOSE)) {
            // Stuck former instances, or threads that the model left running.
            tracing::debug!(model = self.model, "its interpreters end later: {error}");
        }
    }
}

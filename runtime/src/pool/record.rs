//! Recording which modules a program's work needs.

use super::{Builder, Pool};
use crate::imports::{self, ImportMode, ImportProfile};
use crate::python;
use crate::{Error, Result};

impl Builder {
    /// Records which modules `work` needs, for [`Imports::Profile`](crate::Imports::Profile).
    ///
    /// Runs `work` twice, each time on a pool of its own with one interpreter of these settings, which is gone afterwards. The first
    /// one imports as plain Python does. The second one imports modules only when something of them is used. Both must give equal
    /// results. What `work` changes outside of the interpreter, it changes twice.
    ///
    /// Do in `work` what an interpreter has to do before it serves, and one call of each kind that it shall serve with little
    /// memory: open the package, load the model, call it.
    ///
    /// # Errors
    ///
    /// What `work` returns; as [`Builder::build`]; [`Error::Imports`] if the results differ; [`Error::Configuration`] for CPython 3.15.
    pub fn record_imports<T: PartialEq>(
        &self,
        work: impl Fn(&Pool) -> Result<T>,
    ) -> Result<ImportProfile> {
        let python = python::choose(self.python.as_deref(), self.venv.as_deref())?;
        let start = |mode| self.clone().interpreters(1).build_with(Some(mode));
        record(python.minor(), start, work, |_, result| Ok(result))
    }
}

impl Pool {
    /// As [`Builder::record_imports`], with interpreters of this pool's settings. `result` is called behind `work`, and what it imports
    /// is not recorded.
    pub(crate) fn record_imports<K, T: PartialEq>(
        &self,
        work: impl Fn(&Pool) -> Result<K>,
        result: impl Fn(&Pool, K) -> Result<T>,
    ) -> Result<ImportProfile> {
        let python = self.python();
        let start = |mode| {
            let mut configuration = self.changes()?.configuration.clone();
            configuration.imports = Some(mode);
            Self::start(python.clone(), configuration, 1)
        };
        record(python.minor(), start, work, result)
    }
}

/// Records on pools that `start` starts in a mode.
fn record<K, T: PartialEq>(
    minor: u8,
    start: impl Fn(ImportMode) -> Result<Pool>,
    work: impl Fn(&Pool) -> Result<K>,
    result: impl Fn(&Pool, K) -> Result<T>,
) -> Result<ImportProfile> {
    imports::check(minor)?;
    let run = |mode| -> Result<(T, Noted)> {
        let pool = start(mode)?;
        let kept = work(&pool)?;
        let noted = Noted::of(&pool)?;
        Ok((result(&pool, kept)?, noted))
    };
    let (expected, Noted { names: imported, releases }) = run(ImportMode::observing())?;
    let order = ImportProfile::new(imported.clone(), imported.clone());
    let (found, Noted { names: needed, .. }) = run(ImportMode::recording(&order))?;
    if found != expected {
        return Err(Error::Imports(
            "the work gives another result when modules are imported at their first use, so there is no profile for it: \
             use Imports::Eager, or work that gives equal results twice"
                .to_owned(),
        ));
    }
    Ok(ImportProfile::new(imported, needed).with_releases(minor, releases))
}

/// What a pool's interpreter has imported, and the releases of that.
struct Noted {
    names: Vec<String>,
    releases: Vec<(String, String)>,
}

impl Noted {
    fn of(pool: &Pool) -> Result<Self> {
        let session = pool.acquire()?;
        let imports = session.import("_hydrozoa.imports")?;
        let names: Vec<String> = imports.call_method("imported", ())?.extract()?;
        let releases = imports.call_method("releases", (names.clone(),))?.extract()?;
        Ok(Self { names, releases })
    }
}

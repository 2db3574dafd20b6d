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
        imports::check(python::choose(self.python.as_deref(), self.venv.as_deref())?.minor())?;
        let (expected, imported) = self.run_recorded(ImportMode::observing(), &work)?;
        let order = ImportProfile::new(imported.clone(), imported.clone());
        let (found, needed) = self.run_recorded(ImportMode::recording(&order), &work)?;
        if found != expected {
            return Err(Error::Imports(
                "the work gives another result when modules are imported at their first use, so there is no profile for it: \
                 use Imports::Eager, or work that gives equal results twice"
                    .to_owned(),
            ));
        }
        Ok(ImportProfile::new(imported, needed))
    }

    fn run_recorded<T>(
        &self,
        mode: ImportMode,
        work: impl Fn(&Pool) -> Result<T>,
    ) -> Result<(T, Vec<String>)> {
        let pool = self.clone().interpreters(1).build_with(Some(mode))?;
        let result = work(&pool)?;
        let session = pool.acquire()?;
        let names = session.import("_hydrozoa.imports")?.call_method("imported", ())?.extract()?;
        Ok((result, names))
    }
}

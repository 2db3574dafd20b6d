//! Recording which modules a program's work needs.

use super::{Builder, Pool};
use crate::imports::{self, ImportMode, ImportProfile};
use crate::interpreter::Queue;
use crate::{Error, Result};

impl Builder {
    /// Records which modules `work` needs, for [`Imports::Profile`](crate::Imports::Profile).
    ///
    /// Runs `work` at least twice, each time on a temporary pool of one interpreter with these settings. The first run
    /// imports as plain Python does. The second run imports modules only when something of them is used. Both must give equal
    /// results. If they differ, because the work depends on effects of imports that nothing else needs, further runs find the
    /// packages with these imports; their modules are imported where the statements stand ([`ImportProfile::eager`]). Changes
    /// that `work` makes outside of the interpreter happen in each run.
    ///
    /// Let `work` do everything that an interpreter does before it serves, and one call of each kind that it shall serve with
    /// little memory: open the package, load the model, call it.
    ///
    /// # Errors
    ///
    /// The error of `work`; as [`Builder::build`]; [`Error::Imports`] if the results differ; [`Error::Configuration`] for CPython
    /// 3.15.
    pub fn record_imports<T: PartialEq>(
        &self,
        work: impl Fn(&Pool) -> Result<T>,
    ) -> Result<ImportProfile> {
        let python = self.installation()?;
        let start = |mode| self.clone().interpreters(1).max_sessions(0).build_with(Some(mode));
        record(python.minor(), start, work, |_, result| Ok(result))
    }
}

impl Pool {
    /// As [`Builder::record_imports`], with interpreters of this pool's settings. `result` is called after `work`; its imports
    /// are not recorded.
    pub(crate) fn record_imports<K, T: PartialEq>(
        &self,
        work: impl Fn(&Pool) -> Result<K>,
        result: impl Fn(&Pool, K) -> Result<T>,
    ) -> Result<ImportProfile> {
        let python = self.python();
        let start = |mode| {
            let changes = self.changes()?;
            let mut configuration = changes.configuration.clone();
            let streams = changes.streams.clone();
            drop(changes);
            configuration.imports = Some(mode);
            Self::start(python.clone(), configuration, 1, Queue::default(), streams)
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
    // The modules that the work needs if these packages' own are imported where the statements stand, or why the result differs.
    let attempt = |eager: &[String]| match run(ImportMode::recording(&order.with_eager(eager))) {
        Ok((found, noted)) if found == expected => Ok(Ok(noted.names)),
        Ok(_) => Ok(Err("it gives another result".to_owned())),
        Err(error @ Error::Python { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    };
    let mut eager = Vec::new();
    let needed = loop {
        let reason = match attempt(&eager)? {
            Ok(needed) => break needed,
            Err(reason) => reason,
        };
        match culprit(&order, &eager, |packages| Ok(attempt(packages)?.is_ok()))? {
            Some(package) => eager.push(package),
            None => {
                return Err(Error::Imports(format!(
                    "the work does not give the result of its first run when modules are imported at their first use, so there is \
                     no profile for it: {reason}. Use Imports::Eager, or work that gives equal results twice"
                )));
            }
        }
    };
    Ok(ImportProfile::new(imported, needed).with_releases(minor, releases).with_eager(&eager))
}

/// One more package that must be eager: the last one of the shortest prefix of the packages that is enough.
fn culprit(
    order: &ImportProfile,
    eager: &[String],
    is_enough: impl Fn(&[String]) -> Result<bool>,
) -> Result<Option<String>> {
    let mut packages: Vec<String> = Vec::new();
    for name in order.needed() {
        let package = name.split('.').next().unwrap_or(name);
        if !packages.iter().chain(eager).any(|known| known == package) {
            packages.push(package.to_owned());
        }
    }
    let with = |count: usize| [eager, &packages[..count]].concat();
    if packages.is_empty() || !is_enough(&with(packages.len()))? {
        return Ok(None);
    }
    // Not enough, and enough.
    let (mut few, mut many) = (0, packages.len());
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        match is_enough(&with(middle))? {
            true => many = middle,
            false => few = middle,
        }
    }
    Ok(Some(packages.swap_remove(many - 1)))
}

/// The modules that a pool's interpreter has imported, and their releases.
struct Noted {
    names: Vec<String>,
    releases: Vec<(String, String)>,
}

impl Noted {
    fn of(pool: &Pool) -> Result<Self> {
        let session = pool.acquire()?;
        let imports = session.import("_hydrozoa.guided_imports")?;
        let names: Vec<String> = imports.call_method("imported", ())?.extract()?;
        let releases = imports.call_method("releases", (names.clone(),))?.extract()?;
        Ok(Self { names, releases })
    }
}

//! Building packages: stock torch.package's exporter in one interpreter, a trial in another.

mod aligned;
mod describe;
mod page;
mod report;
mod serving;

pub use report::{Cost, Module, Report, Verdict};

use super::signature::{self, EXAMPLE, OBJECT, Signature};
use super::{Archive, PackageError, append, profile};
use crate::imports::ImportProfile;
use crate::memory::Usage;
use crate::movable::Movable;
use crate::object::Object;
use crate::pool::Pool;
use crate::session::Session;
use crate::{Error, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The treatment of the modules that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Their source goes into the package.
    Intern,
    /// They are taken from the machine that loads it.
    Extern,
    /// They are replaced by mocks, which raise when they are used.
    Mock,
    /// They must not be needed.
    Deny,
}

impl Action {
    /// torch.package's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intern => "intern",
            Self::Extern => "extern",
            Self::Mock => "mock",
            Self::Deny => "deny",
        }
    }
}

/// Whether a package carries a profile of imports, with which interpreters import what serving the package needs
/// ([`Archive::imports`](super::Archive::imports)).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Profile {
    /// It carries none.
    #[default]
    Without,
    /// The build records one, if the package computes what it should: two further interpreters, one behind the other, load the
    /// package and call it with the arguments. `docs/imports.md` says how the second one differs. They must give equal outputs.
    Recorded,
    /// It carries this one.
    Given(ImportProfile),
}

/// The object to package, and how to package it.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// `MODULE:CALLABLE`: a function without parameters that returns the object, or the object
    /// and a tuple of arguments for one call of it.
    pub target: String,
    /// torch.package's patterns of module names (`torchvision.**`); the first match counts. Where none
    /// matches, built-in rules decide, and the report names them: the object's own package and packages
    /// without C extensions are interned, packages with C extensions are external. A module that is not
    /// installed is left out: importing it raises, as it does here.
    pub rules: Vec<(Action, String)>,
    /// Shared libraries to put in, each with its record; by default the place where Python finds it.
    /// The libraries that they need and bring along (`*.libs`) go in too.
    pub extensions: Vec<(PathBuf, Option<String>)>,
    /// Other files to put in, each with its record as above. Code reads them by `importlib.resources`
    /// or its importer's `load_text` and `load_binary`.
    pub files: Vec<(PathBuf, Option<String>)>,
    /// Folders in front of `sys.path` while the object is made.
    pub paths: Vec<PathBuf>,
    /// The time limit of the search for false dependencies.
    pub search: Duration,
    /// Whether the package carries a profile of imports.
    pub profile: Profile,
    /// The largest batch that a call takes, if the first extent of all inputs and outputs is that of a batch; otherwise 0. The build
    /// tries a batch of twice the example's size.
    pub max_batch_size: usize,
    /// Extents besides the batch's that may differ from the example's: the name of an input or output, and the place among its extents.
    pub free: Vec<(String, usize)>,
}

impl Recipe {
    /// A recipe without rules.
    pub fn new(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            rules: Vec::new(),
            extensions: Vec::new(),
            files: Vec::new(),
            paths: Vec::new(),
            search: Duration::from_secs(60),
            profile: Profile::Without,
            max_batch_size: 0,
            free: Vec::new(),
        }
    }
}

/// The result of `_hydrozoa.exporting.build`: object, arguments, modules, problems.
type Built<'s> = (Object<'s>, Object<'s>, Vec<Row>, Vec<String>);

/// The result of `_hydrozoa.rehearsal.check`: the output, modules, external modules, costs.
type Checked<'s> = (Object<'s>, Vec<String>, Vec<String>, Vec<(String, u32, String, usize, u64)>);

/// Name, action, reason, size in bytes, names of those that import it.
type Row = (String, String, String, u64, Vec<String>);

impl Pool {
    /// Makes the object that `recipe` names, in the pool's first interpreter, writes a package of
    /// it to `output`, and loads and calls that in the last one, in the package's own modules.
    ///
    /// The package holds the object as `model/model.pkl`, and the arguments, if there are some, as
    /// `model/example.pkl`.
    ///
    /// # Errors
    ///
    /// [`PackageError::Build`] with every module that cannot be packaged and the remedy for each;
    /// [`Error::Python`] for an exception of making or calling the object. A package that does not
    /// load, or computes something else, is not an error: the report's verdict says it. [`Error::Imports`] if the package cannot
    /// have an import profile: it is then written without one. [`Error::Configuration`] if a profile is to be recorded without
    /// arguments, or if batches or free extents are not those of the call.
    pub fn build_package(&self, recipe: &Recipe, output: impl AsRef<Path>) -> Result<Report> {
        let output = output.as_ref();
        let partial = output.with_extension("partial");
        // Checked before the work, which may take minutes. A rename would replace a device by a file.
        if fs::metadata(output).is_ok_and(|found| !found.is_file()) {
            let source = std::io::Error::other("it exists and is not a regular file: name another");
            return Err(Error::Io { path: output.to_owned(), source });
        }
        drop(File::create(&partial).map_err(|source| Error::Io { path: partial.clone(), source })?);
        let maker = self.acquire_on(0)?;
        let checker = self.acquire_on(self.interpreters().len() - 1)?;
        let (object, arguments, rows, problems) =
            export(&maker, recipe, &partial).inspect_err(|_| drop(fs::remove_file(&partial)))?;
        if !problems.is_empty() {
            let target = recipe.target.clone();
            return Err(PackageError::Build { target, problems }.into());
        }
        let called = called(&maker, recipe, &object, &arguments);
        let called = called.inspect_err(|_| drop(fs::remove_file(&partial)))?;
        aligned::align(&partial).inspect_err(|_| drop(fs::remove_file(&partial)))?;
        fs::rename(&partial, output)
            .map_err(|source| Error::Io { path: output.to_owned(), source })?;
        let mut report = Report::new(output, rows)?;
        // The output of the unpackaged object, in a form that the checker accepts.
        let case = match called {
            None => None,
            Some((expected, signature)) => {
                report.signature = signature;
                Some([self.create_movable(&arguments)?, self.create_movable(&expected)?])
            }
        };
        insert_paths(&checker, &recipe.paths)?;
        report.verdict = self.rehearse(&checker, output, case.as_ref(), recipe, &mut report)?;
        // The checker's copies keep the maker's storages, so they are dropped before the interpreters end.
        drop(case);
        checker.import("gc")?.call_method("collect", ())?;
        checker.interpreter().drain();
        report.imports = match &recipe.profile {
            Profile::Without => None,
            Profile::Given(given) => Some(given.clone()),
            Profile::Recorded if report.verdict == Verdict::Same => Some(self.record(output)?),
            Profile::Recorded => None,
        };
        let imports = report.imports.as_ref().map(ImportProfile::to_string);
        let signature = report.signature.as_ref().ok().map(Signature::to_string);
        let records = [(profile::RECORD, imports), (signature::RECORD, signature)];
        let records: Vec<_> = records
            .iter()
            .filter_map(|(name, text)| Some((*name, text.as_ref()?.as_bytes())))
            .collect();
        if !records.is_empty() {
            append::add(output, &records)?;
            report.bytes = Archive::open(output)?.mapping().len() as u64;
        }
        Ok(report)
    }

    fn rehearse(
        &self,
        session: &Session,
        file: &Path,
        case: Option<&[Movable; 2]>,
        recipe: &Recipe,
        report: &mut Report,
    ) -> Result<Verdict> {
        let object = |movable: Option<&Movable>| match movable {
            Some(movable) => movable.to_object(session),
            None => session.none(),
        };
        let arguments = object(case.map(|[arguments, _]| arguments))?;
        let package = self.load_package(file)?;
        let importer = package.importer(session)?;
        let rehearsal = session.import("_hydrozoa.rehearsal")?;
        // Every serving interpreter has it anyway, so it is not a cost of the package.
        session.import("torch")?;
        let folders: Vec<String> =
            recipe.paths.iter().map(|path| path.display().to_string()).collect();
        let private_memory = session.function("private_memory", |session, _| {
            session.object_from(&Usage::of_process()?.private)
        })?;
        let checked = rehearsal
            .call_method("check", (&importer, OBJECT, &arguments, folders, &private_memory));
        let (result, imported, used, costs) = match checked {
            Ok(checked) => checked.extract::<Checked<'_>>()?,
            Err(error) => {
                let traceback = error.traceback().unwrap_or_default();
                return Ok(Verdict::Fails(format!("{error}\n{traceback}")));
            }
        };
        report.set_imported(&imported, &used);
        report.set_costs(costs);
        let Some([_, expected]) = case else {
            return Ok(Verdict::Loads);
        };
        // Only now: imports of its classes do not belong to the package.
        let expected = expected.to_object(session)?;
        let difference = rehearsal.call_method("unlike", (&result, &expected))?;
        if !difference.is_none() {
            return Ok(Verdict::Differs(difference.extract()?));
        }
        let (falses, complete): (Vec<String>, bool) = rehearsal
            .call_method(
                "false_dependencies",
                (
                    &importer,
                    OBJECT,
                    &arguments,
                    &expected,
                    imported,
                    used,
                    recipe.search.as_secs_f64(),
                ),
            )?
            .extract()?;
        report.set_false(&falses, complete);
        Ok(Verdict::Same)
    }
}

/// Calls the object with the example, if there is one, and describes the call.
fn called<'s>(
    session: &'s Session,
    recipe: &Recipe,
    object: &Object<'s>,
    arguments: &Object<'s>,
) -> Result<Option<(Object<'s>, std::result::Result<Signature, String>)>> {
    let target = &recipe.target;
    if !arguments.is_none() {
        let exporting = session.import("_hydrozoa.exporting")?;
        let expected = exporting.call_method("call", (object, arguments))?;
        let signature = describe::describe(session, recipe, object, arguments, &expected)?;
        return Ok(Some((expected, signature)));
    }
    if matches!(recipe.profile, Profile::Recorded) {
        return Err(Error::Configuration(format!(
            "a profile of imports is recorded while the object is called: have {target} return the object and a tuple of arguments, \
             or give a profile"
        )));
    }
    if recipe.max_batch_size > 0 || !recipe.free.is_empty() {
        return Err(Error::Configuration(format!(
            "batches and free extents are those of an example: have {target} return the object and a tuple of arguments"
        )));
    }
    Ok(None)
}

/// Runs the exporter.
fn export<'s>(session: &'s Session, recipe: &Recipe, file: &Path) -> Result<Built<'s>> {
    insert_paths(session, &recipe.paths)?;
    let rules: Vec<(&str, &str)> =
        recipe.rules.iter().map(|(action, pattern)| (action.name(), pattern.as_str())).collect();
    let pairs = |files: &[(PathBuf, Option<String>)]| -> Vec<(String, String)> {
        let pair = |(file, record): &(PathBuf, Option<String>)| {
            (file.display().to_string(), record.clone().unwrap_or_default())
        };
        files.iter().map(pair).collect()
    };
    let (extensions, files) = (pairs(&recipe.extensions), pairs(&recipe.files));
    let target = recipe.target.as_str();
    session
        .import("_hydrozoa.exporting")?
        .call_method("build", (target, file.display().to_string(), rules, extensions, files))?
        .extract()
}

fn insert_paths(session: &Session, paths: &[PathBuf]) -> Result<()> {
    let list = session.import("sys")?.getattr("path")?;
    for path in paths.iter().rev() {
        let path = path.display().to_string();
        if !list.call_method("__contains__", (path.as_str(),))?.truth()? {
            list.call_method("insert", (0, path))?;
        }
    }
    Ok(())
}

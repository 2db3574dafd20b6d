//! Packages: models with their code in one file, as `torch.package` writes them.
//!
//! Opening a package reads and checks its directory and unpacks nothing. Python code imports its
//! modules and loads its pickles through our own importer (`payload/python/package.py`), on
//! interpreters with torch or without. Storages of tensors are the file's own pages, mapped once for
//! all interpreters: see [`Archive`].
//!
//! ```no_run
//! # fn main() -> hydrozoa::Result<()> {
//! use hydrozoa::{Pool, Tensor};
//!
//! let pool = Pool::builder().interpreters(4).venv("venv").build()?;
//! let package = pool.load_package("mobilenet_v3.pt")?;
//! let model = package.load_pickle("model", "model.pkl")?;
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| -> hydrozoa::Result<()> {
//!             let x = Tensor::from_vec(vec![0.0_f32; 3 * 224 * 224], &[1, 3, 224, 224])?;
//!             let y: Tensor = model.call((&x,))?.extract()?;
//!             println!("{:?}", y.shape());
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok(()) }
//! ```

mod append;
mod archive;
pub mod build;
mod code;
mod device_storages;
mod directory;
mod libraries;
mod limits;
mod location;
pub(crate) mod mapping;
mod profile;
mod signature;

#[cfg(test)]
mod tests;

pub use crate::error::PackageError;
pub use archive::Archive;
pub use limits::Limits;
pub use location::MapLocation;
pub use signature::{Described, EXAMPLE, Kind, OBJECT, Signature, describing};

use self::code::Code;
use crate::Result;
use crate::interpreter::{Inner, Interpreter};
use crate::movable::Movable;
use crate::object::Object;
use crate::pool::Pool;
use crate::session::Session;
use hydrozoa_loader::LeafLock;
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The number of the first package. Numbers are part of mangled module names, `<torch_package_N>`.
/// torch.package's own importers count from 0 in each interpreter; ours must not collide with them.
const FIRST_IDENTITY: u64 = 1_000_000;

/// The packages of this process by number, for pickles that refer to their modules.
static PACKAGES: LeafLock<Vec<(u64, Weak<Shared>)>> = LeafLock::new(Vec::new());

/// An archive in a pool of interpreters. Each interpreter imports it at its first use there.
///
/// A handle: clones refer to the same package. After the last handle and the last [`Movable`] that
/// needs it are dropped, the interpreters forget its modules.
#[derive(Clone, Debug)]
pub struct Package(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    archive: Archive,
    weights: Weights,
    identity: u64,
    pool: Pool,
    /// The code that one interpreter has compiled for all.
    code: Arc<Code>,
    /// The interpreters that have its importer, by the address of their state.
    interpreters: LeafLock<HashMap<usize, Weak<Inner>>>,
}

/// Whether code may write to the storages of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// All interpreters of this process see a write; the file and other processes do not. These are
    /// torch's semantics for storage that threads share.
    #[default]
    Writable,
    /// A write raises a `RuntimeError`. So does everything that asks torch for a writable pointer:
    /// `Tensor.numpy()`, `Tensor.data_ptr()`, export by DLPack, and operators that ask for one although
    /// they only read (`nn.LSTM` on the CPU, in torch 2.11). Reading, computing and copying work.
    ReadOnly,
}

impl Pool {
    /// Opens a package for this pool.
    ///
    /// # Errors
    ///
    /// [`Error::Package`](crate::Error::Package), if the file is not a sound package.
    pub fn load_package(&self, path: impl AsRef<Path>) -> Result<Package> {
        Ok(self.load_archive(Archive::open(path)?))
    }

    /// Makes a package of this pool from an archive. Each call makes a package with modules of its own;
    /// all of them share the archive's storages.
    pub fn load_archive(&self, archive: Archive) -> Package {
        self.load_archive_with(archive, Weights::Writable)
    }

    /// As [`Pool::load_archive`]; `weights` decides whether code may write to the weights.
    pub fn load_archive_with(&self, archive: Archive, weights: Weights) -> Package {
        static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(FIRST_IDENTITY);
        let shared = Arc::new(Shared {
            archive,
            weights,
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed),
            pool: self.clone(),
            code: Arc::default(),
            interpreters: LeafLock::default(),
        });
        PACKAGES.with(|packages| {
            packages.retain(|(_, package)| package.strong_count() > 0);
            packages.push((shared.identity, Arc::downgrade(&shared)));
        });
        Package(shared)
    }
}

impl Package {
    /// The package of that number, if it is alive.
    pub(crate) fn of_identity(identity: u64) -> Option<Self> {
        PACKAGES.with(|packages| {
            let (_, package) = packages.iter().find(|(number, _)| *number == identity)?;
            package.upgrade().map(Self)
        })
    }

    /// The archive: its records and metadata.
    pub fn archive(&self) -> &Archive {
        &self.0.archive
    }

    /// The pool that it was loaded for.
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The number in its modules' names, `<torch_package_N>`: the same in all interpreters, and
    /// unique in this process.
    pub fn identity(&self) -> u64 {
        self.0.identity
    }

    /// The modules that the package takes from the machine.
    pub fn extern_modules(&self) -> &[String] {
        self.0.archive.extern_modules()
    }

    /// The version of the Python that wrote the package, such as `3.11.7`, if it is recorded.
    pub fn python_version(&self) -> Option<&str> {
        self.0.archive.python_version()
    }

    /// An object that was saved by `exporter.save_pickle(package, resource, object)`.
    ///
    /// It is loaded at once on the least loaded interpreter, so that its errors appear here, and on
    /// the others at their first use. All share the package's storages: every object that was loaded
    /// from this package sees an in-place change of a weight.
    ///
    /// # Errors
    ///
    /// [`Error::Package`](crate::Error::Package) if the record does not exist; the exception that
    /// loading raises; [`Error::Device`](crate::Error::Device) if the object was saved on a device that
    /// torch cannot use.
    pub fn load_pickle(&self, package: &str, resource: &str) -> Result<Movable> {
        self.loaded(package, resource, None)
    }

    /// As [`Package::load_pickle`], on the interpreter of a session: limits on the session's calls apply to the load.
    ///
    /// # Errors
    ///
    /// As [`Package::load_pickle`]; [`Error::Deadline`](crate::Error::Deadline) under [`Session::with_deadline`].
    pub fn load_pickle_on(
        &self,
        session: &Session,
        package: &str,
        resource: &str,
    ) -> Result<Movable> {
        self.loaded_on(session, package, resource, None)
    }

    /// As [`Package::load_pickle`], with the storages moved to other devices like by `map_location` of
    /// `torch.load`: `"cpu"` loads storages that were saved on a GPU into main memory, `"cuda"` puts
    /// everything on the GPU. A storage on a GPU is uploaded once for all interpreters.
    ///
    /// # Errors
    ///
    /// As [`Package::load_pickle`]; [`Error::Device`](crate::Error::Device) if torch cannot use a
    /// device.
    pub fn load_pickle_mapped(
        &self,
        package: &str,
        resource: &str,
        map_location: impl Into<MapLocation>,
    ) -> Result<Movable> {
        self.loaded(package, resource, Some(map_location.into()))
    }

    /// As [`Package::load_pickle_mapped`], on the interpreter of a session: limits on the session's calls apply to the load.
    ///
    /// # Errors
    ///
    /// As [`Package::load_pickle_mapped`]; [`Error::Deadline`](crate::Error::Deadline) under [`Session::with_deadline`].
    pub fn load_pickle_mapped_on(
        &self,
        session: &Session,
        package: &str,
        resource: &str,
        map_location: impl Into<MapLocation>,
    ) -> Result<Movable> {
        self.loaded_on(session, package, resource, Some(map_location.into()))
    }

    fn loaded_on(
        &self,
        session: &Session,
        package: &str,
        resource: &str,
        map: Option<MapLocation>,
    ) -> Result<Movable> {
        let movable = self.movable(package, resource, map)?;
        movable.to_object(session)?;
        Ok(movable)
    }

    fn loaded(&self, package: &str, resource: &str, map: Option<MapLocation>) -> Result<Movable> {
        let movable = self.movable(package, resource, map)?;
        let session = movable.acquire_session()?;
        movable.to_object(&session)?;
        drop(session);
        Ok(movable)
    }

    /// One that no interpreter has loaded.
    fn movable(&self, package: &str, resource: &str, map: Option<MapLocation>) -> Result<Movable> {
        self.0.archive.size(&archive::resource_path(package, resource))?;
        Ok(Movable::of_pickle(self.clone(), package.to_owned(), resource.to_owned(), map))
    }

    /// A binary resource, as `importer.load_binary(package, resource)`.
    ///
    /// # Errors
    ///
    /// [`Error::Package`](crate::Error::Package) if the record does not exist or is damaged.
    pub fn load_binary(&self, package: &str, resource: &str) -> Result<Vec<u8>> {
        Ok(self.0.archive.load_binary(package, resource)?)
    }

    /// A text resource, as `importer.load_text(package, resource)`.
    ///
    /// # Errors
    ///
    /// [`Error::Package`](crate::Error::Package) if the record does not exist, is damaged, or is not UTF-8.
    pub fn load_text(&self, package: &str, resource: &str) -> Result<String> {
        Ok(self.0.archive.load_text(package, resource)?)
    }

    /// A module of the package, by its plain name.
    ///
    /// # Errors
    ///
    /// `ModuleNotFoundError`, or the exception that the module raises.
    pub fn import_module<'s>(&self, session: &'s Session, name: &str) -> Result<Object<'s>> {
        session.collecting_seldom(|| self.importer(session)?.call_method("import_module", (name,)))
    }

    /// A session on the least loaded interpreter, with the package's importer
    /// ([`Session::importer`]).
    ///
    /// # Errors
    ///
    /// As [`Package::importer`].
    pub fn acquire_session(&self) -> Result<Session> {
        let session = self.0.pool.acquire()?;
        self.importer(&session)?;
        Ok(session.with_origin(self.clone()))
    }

    /// The package's importer in the session's interpreter, with the methods of
    /// `torch.package.PackageImporter`; made at the first call.
    ///
    /// # Errors
    ///
    /// `ImportError`, if the archive's modules contradict each other or its external modules.
    pub fn importer<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        session.with_gil(|| {
            let module = session.import("_hydrozoa.package")?;
            let found = module.call_method("find", (self.0.identity,))?;
            if !found.is_none() {
                return Ok(found);
            }
            let importer = self.install(session, &module)?;
            let key = Arc::as_ptr(session.inner()).addr();
            let interpreter = Arc::downgrade(session.inner());
            self.0.interpreters.with(|interpreters| interpreters.insert(key, interpreter));
            Ok(importer)
        })
    }

    fn install<'s>(&self, session: &'s Session, module: &Object<'s>) -> Result<Object<'s>> {
        let archive = &self.0.archive;
        let names: Vec<&str> = archive.records().collect();
        let read = {
            let archive = archive.clone();
            session.function("read", move |session, arguments| {
                let name: String = arguments.extract(0)?;
                session.object_from(archive.read(&name)?.as_slice())
            })?
        };
        let storage = {
            let archive = archive.clone();
            session.function("storage", move |session, arguments| {
                let name: String = arguments.extract(0)?;
                archive.memory(&name)?.lend_tensor(session)
            })?
        };
        let library = {
            let archive = archive.clone();
            session.function("library", move |session, arguments| {
                let name: String = arguments.extract(0)?;
                session.object_from(&*archive.library(&name)?.to_string_lossy())
            })?
        };
        let open = {
            let mapping = Arc::clone(archive.mapping());
            session.function("open", move |session, _| {
                // SAFETY: the mapping keeps its pages, to which no Rust reference exists; what
                // Python writes is the process's own copy of them.
                unsafe {
                    session.lend_raw(
                        mapping.at(0).as_ptr(),
                        mapping.len(),
                        false,
                        Arc::clone(&mapping),
                    )
                }
            })?
        };
        let resident = {
            let archive = archive.clone();
            session.function("resident", move |session, arguments| {
                let (record, location): (String, String) =
                    (arguments.extract(0)?, arguments.extract(1)?);
                let upload: Object<'_> = arguments.extract(3)?;
                archive
                    .resident(&record, &location, arguments.extract(2)?, &upload)?
                    .lend_tensor(session)
            })?
        };
        let label = archive.label();
        let read_only = self.0.weights == Weights::ReadOnly;
        let arguments = (self.0.identity, label, names, read, storage, open, library, read_only);
        let options = [("resident", resident), ("code", self.code(session)?)];
        module.call_method_kwargs("install", arguments, options)
    }

    /// The functions by which an importer finds and keeps compiled modules; `None` if no other interpreter would read
    /// them.
    fn code<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        if self.0.pool.interpreters().len() == 1 {
            return session.none();
        }
        let find = {
            let code = Arc::clone(&self.0.code);
            session.function("find_code", move |session, arguments| {
                match code.find(&arguments.extract::<String>(0)?) {
                    Some(marshalled) => session.lend(marshalled),
                    None => session.none(),
                }
            })?
        };
        let keep = {
            let code = Arc::clone(&self.0.code);
            session.function("keep_code", move |session, arguments| {
                code.keep(arguments.extract(0)?, arguments.extract(1)?);
                session.none()
            })?
        };
        session.object_from(&(find, keep))
    }
}

impl Session {
    /// The importer of the package that this session was acquired from ([`Package::acquire_session`]).
    /// torch::deploy calls it the session's `self`.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`](crate::Error::Configuration) if the session belongs to no package.
    pub fn importer(&self) -> Result<Object<'_>> {
        match self.origin::<Package>() {
            Some(package) => package.importer(self),
            None => Err(crate::Error::Configuration(
                "this session has no importer: it was not acquired from a package \
                 (Package::acquire_session)"
                    .to_owned(),
            )),
        }
    }
}

impl Drop for Shared {
    /// Makes every interpreter forget the modules at its next entry. Nothing waits here.
    fn drop(&mut self) {
        let interpreters = self.interpreters.with(std::mem::take);
        for interpreter in interpreters.into_values() {
            // An interpreter that is gone has forgotten them.
            let Some(inner) = interpreter.upgrade() else {
                continue;
            };
            let removal = Box::new(Removal { interpreter, identity: self.identity });
            // SAFETY: `defer` calls `remove` once, with the box that it takes over.
            unsafe { (inner.table().defer)(remove, Box::into_raw(removal).cast()) };
        }
    }
}

struct Removal {
    /// Weak, since the interpreter's own queue holds it.
    interpreter: Weak<Inner>,
    identity: u64,
}

/// # Safety
///
/// `removal` must come from `Box::into_raw` of a [`Removal`], and is freed. This thread must hold
/// the GIL of its interpreter.
unsafe extern "C" fn remove(removal: *mut c_void) {
    // SAFETY: as the caller vouches.
    let removal = unsafe { Box::from_raw(removal.cast::<Removal>()) };
    // An interpreter that is being finalized forgets everything.
    let Some(inner) = removal.interpreter.upgrade() else {
        return;
    };
    let session = Interpreter(inner).session();
    let removed = session
        .import("_hydrozoa.package")
        .and_then(|module| module.call_method("remove", (removal.identity,)));
    if let Err(error) = removed {
        tracing::warn!(
            interpreter = session.interpreter().name(),
            package = removal.identity,
            %error,
            "the package's modules could not be removed",
        );
    }
}

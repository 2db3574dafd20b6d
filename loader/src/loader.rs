//! The loader, which makes domains.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::bind::binding::Binding;
use crate::bind::plan::Interposed;
use crate::dl;
use crate::domain::belongings::Belongings;
use crate::domain::estate::Inheritance;
use crate::domain::exits::Exits;
use crate::domain::{self, Domain, DomainInner, DomainState};
use crate::error::{Error, Result};
use crate::id::DomainId;
use crate::image::symbols::Name;
use crate::load::{retire, run};
use crate::policy::Policy;
use crate::replica::link_map::LinkMap;
use crate::replica::thunk::{Interposition, Thunks};
use crate::sys::clibrary::CLibrary;
use crate::sys::environ::{Environment, ZoneVariable};
use crate::sys::lock::{Mutex, Once, Rank, Reentrant};
use crate::sys::record_locks::Owner;
use crate::sys::{dynamic, lock};
use crate::system::search::{self, Absence};
use crate::system::{SYSTEM, SystemObject};
use crate::visible::debugger;
use crate::visible::publish;
use crate::visible::redirect::Everywhere;
use crate::visible::unwind;

/// Loads images into domains. Cheap to clone.
///
/// A process may have several loaders with different policies. They share images and the system's
/// objects, but not the commons.
#[derive(Clone, Debug)]
pub struct Loader {
    policy: Arc<Policy>,
    commons: Domain,
    everywhere: Arc<[Everywhere]>,
}

/// Prepares a [`Loader`].
#[derive(Debug, Default)]
pub struct LoaderBuilder {
    policy: Policy,
    everywhere: Vec<Everywhere>,
}

impl LoaderBuilder {
    /// Replaces the default policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> LoaderBuilder {
        self.policy = policy;
        self
    }

    /// Binds references to `symbol` to `interposition` in all code that may receive memory from a domain's libraries: in
    /// replicas, in the commons, and in system objects that define functions for them, with the objects that these need. The C
    /// library is among these: `getline` enlarges a block of its caller. All objects of a scope share one copy of a C++ inline function or
    /// template instance (Itanium C++ ABI, 5.2, vague linkage), so code of a system object may free memory that a replica has allocated.
    ///
    /// # Panics
    /// If the interposition has a context.
    #[must_use]
    pub fn interpose_everywhere(
        mut self,
        symbol: &str,
        interposition: Interposition,
    ) -> LoaderBuilder {
        let address = interposition.address().expect("a function without a context");
        self.everywhere.push(Everywhere { symbol: symbol.to_owned(), address });
        self
    }

    /// Prepares the process (exceptions, debuggers) and makes the loader.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the process's libgcc_s cannot be made
    /// to find replicas: C++ exceptions could not cross them.
    pub fn build(self) -> Result<Loader> {
        publish::prepare()?;
        lock::fork::prepare();
        unwind::install(&SYSTEM)?;
        debugger::prepare(&SYSTEM);
        let policy = Arc::new(self.policy);
        let everywhere: Arc<[Everywhere]> = self.everywhere.into();
        let commons =
            DomainBuilder::new("commons", policy.clone(), None, everywhere.clone()).build()?;
        Ok(Loader { policy, commons, everywhere })
    }
}

/// Prepares a [`Domain`].
#[derive(Debug)]
pub struct DomainBuilder {
    name: String,
    policy: Arc<Policy>,
    commons: Option<Domain>,
    program: bool,
    interpositions: HashMap<String, Interposition>,
    /// By symbol and soname of the image that refers to it.
    references: BTreeMap<(String, String), Interposition>,
    everywhere: Arc<[Everywhere]>,
    environment: Option<Vec<CString>>,
    /// The soname of the replica with a steady `environ`.
    steady: Option<String>,
}

/// The name whose references bind to the shortest form for each object.
const TLS_GET_ADDR: &str = "__tls_get_addr";

/// Prepares the process for a domain that extends the program.
fn extend_the_program() {
    SYSTEM.settle_program();
    // Before the program's own registrations: its destructors run first.
    run::destroy_at_exit();
}

impl DomainBuilder {
    fn new(
        name: &str,
        policy: Arc<Policy>,
        commons: Option<Domain>,
        everywhere: Arc<[Everywhere]>,
    ) -> DomainBuilder {
        DomainBuilder {
            name: name.to_owned(),
            policy,
            commons,
            program: false,
            interpositions: HashMap::new(),
            references: BTreeMap::new(),
            everywhere,
            environment: None,
            steady: None,
        }
    }

    /// Binds references to `symbol` from the domain's replicas to `interposition`, whatever object
    /// defines the symbol. The last interposition of a symbol counts. The loader's own interpositions
    /// (the `dl*` functions, `__tls_get_addr`, `pthread_create`) can be replaced too.
    #[must_use]
    pub fn interpose(mut self, symbol: &str, interposition: Interposition) -> DomainBuilder {
        self.interpositions.insert(symbol.to_owned(), interposition);
        self
    }

    /// Binds references to `symbol` from the domain's replica with this soname (its file's name, if it has none) to
    /// `interposition`, whatever object defines the symbol. It counts before [`DomainBuilder::interpose`].
    #[must_use]
    pub fn interpose_in(
        mut self,
        soname: &str,
        symbol: &str,
        interposition: Interposition,
    ) -> DomainBuilder {
        self.references.insert((symbol.to_owned(), soname.to_owned()), interposition);
        self
    }

    /// Gives the domain an environment (environ(7)) of its own, with these entries, each `NAME=value`. Without it,
    /// the domain's replicas use the environment of the process.
    ///
    /// The domain's replicas then read and change their own environment alone: by `environ`, `getenv`, `setenv`
    /// and their relatives. The programs that they start get it: by `execv`, `execl`, `execvp`, `execlp`, `system` and
    /// `popen`. `execvpe` and `posix_spawnp` search its `PATH`.
    ///
    /// It reaches only references of the domain's replicas. The C library still reads the process's environment for its
    /// own variables: `TZ`, `LANGUAGE`, `LOCPATH`, `RES_OPTIONS`, `HOME` in `glob` and `wordexp`, `TMPDIR` in
    /// `tempnam`. So do system objects, the commons and the program.
    #[must_use]
    pub fn environment(mut self, entries: impl IntoIterator<Item = CString>) -> DomainBuilder {
        self.environment = Some(entries.into_iter().collect());
        self
    }

    /// Gives the domain's replica with this soname (its file's name, if it has none) a variable `environ` that moves only when
    /// the replica itself changes the environment, for a domain without an environment of its own.
    ///
    /// The process's `environ` moves when any domain removes a variable or needs room for one. A program that reads
    /// `environ` twice and expects no change, having made none, is correct alone and wrong beside others:
    /// it may mistake an array that is no longer `environ` for one that it made, and free it. The variable points
    /// to the environment as it was when the domain was made, with the replica's own changes since, which also reach the
    /// process's environment. `posix_spawn` and `posix_spawnp` take it to mean the process's current environment.
    #[must_use]
    pub fn steady_environ(mut self, soname: &str) -> DomainBuilder {
        self.steady = Some(soname.to_owned());
        self
    }

    /// Makes the domain a part of the program instead of a world beside it: libraries that this loader
    /// loads follow the system loader's rules of `dlopen(3)`.
    ///
    /// Objects of the system loader count as loaded. Symbols of the executable and its dependencies come
    /// before the domain's. A library is unloaded when its last handle is closed and nothing needs it any
    /// more. Code in the domain must give the guarantees that `dlclose(3)` asks for. A process has at most
    /// one use for such a domain.
    #[must_use]
    pub fn extend_program(mut self) -> DomainBuilder {
        self.program = true;
        self
    }

    /// Makes the domain.
    pub fn build(mut self) -> Result<Domain> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = DomainId(NEXT.fetch_add(1, Ordering::Relaxed));
        let is_one_of_many = self.commons.is_some() && !self.program;
        let own_tls_get_addr = !self.interpositions.contains_key(TLS_GET_ADDR);
        let memory = |action, length, source| Error::Memory {
            object: PathBuf::from(&self.name),
            action,
            length,
            source,
        };
        let make = |entries: Vec<CString>| {
            let length = entries.len() * size_of::<usize>();
            let made = Environment::new(id, entries).map(Box::new);
            made.map_err(|source| memory("make the environment of", length, source))
        };
        let environment = self.environment.map(make).transpose()?;
        let make = |soname| {
            let made = Environment::steady(id).map(Box::new);
            made.map_err(|source| memory("make the environ of", 0, source))
                .map(|steady| (soname, steady))
        };
        let steady = self.steady.filter(|_| environment.is_none()).map(make).transpose()?;
        if let Some((soname, steady)) = &steady {
            for (symbol, entry) in dl::steady_environ(steady) {
                self.references.insert((symbol.to_owned(), soname.clone()), entry);
            }
        }
        let owner = Box::new(Owner::new(id));
        let own = dl::interpositions(id, is_one_of_many, environment.as_deref(), &owner);
        let mut table: HashMap<String, Interposition> =
            own.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
        for Everywhere { symbol, address } in &*self.everywhere {
            // SAFETY: whoever made the interposition has vouched for it.
            let entry = unsafe { Interposition::function(*address as *const c_void) };
            table.insert(symbol.clone(), entry);
        }
        table.extend(self.interpositions);
        let mut table: Vec<(String, Interposition)> = table.into_iter().collect();
        table.sort_by(|a, b| a.0.cmp(&b.0));
        let (names, mut entries): (Vec<_>, Vec<_>) = table.into_iter().unzip();
        let (references, more): (Vec<_>, Vec<_>) = self.references.into_iter().unzip();
        entries.extend(more);
        // SAFETY: the domain has both.
        let zone = unsafe { ZoneVariable::new(id, environment.as_deref()) };
        let c_library = is_one_of_many.then(|| CLibrary::new(zone));
        let (own, more) = c_library.as_deref().map(dl::answers).unwrap_or_default();
        entries.extend(more);
        let length = entries.len() * crate::arch::THUNK_SIZE;
        let thunks = Thunks::generate(&entries)
            .map_err(|source| memory("map the thunks of", length, source))?;
        if is_one_of_many {
            retire::resume();
        }
        if self.program {
            extend_the_program();
        }
        let tls_get_addr = names.iter().position(|name| name == TLS_GET_ADDR);
        let domain = Domain(Arc::new(DomainInner {
            id,
            name: self.name,
            policy: self.policy,
            program: self.program,
            commons: self.commons.map(|commons| commons.0),
            serial: Reentrant::new(),
            state: Mutex::new(Rank::Domain, DomainState::default()),
            everywhere: self.everywhere,
            interposed: Arc::new(Interposed {
                names: names.into(),
                references: references.into(),
                c_library: own,
            }),
            tls_get_addr: tls_get_addr.filter(|_| own_tls_get_addr).map(|index| index as u32),
            thunks,
            environment,
            c_library,
            _steady_environ: steady.map(|(_, steady)| steady),
            handle: LinkMap::like_the_program(),
            belongings: Belongings::none(),
            record_locks: owner,
            exits: Exits::of(id),
            is_busy: Once::new(),
            inherited: Mutex::new(Rank::Inherited, Inheritance::default()),
            data_was_replaced: AtomicBool::new(false),
        }));
        domain::register(&domain);
        Ok(domain)
    }
}

impl Loader {
    /// A loader with options.
    pub fn builder() -> LoaderBuilder {
        LoaderBuilder::default()
    }

    /// A new domain; `name` appears in messages.
    pub fn domain(&self, name: &str) -> DomainBuilder {
        let commons = Some(self.commons.clone());
        DomainBuilder::new(name, self.policy.clone(), commons, self.everywhere.clone())
    }

    /// The domain of libraries that are loaded once for all domains of this loader.
    pub fn commons(&self) -> &Domain {
        &self.commons
    }

    /// The file that the system's loader would load for `name` without any object's own search path: from
    /// `LD_LIBRARY_PATH`, its cache and its directories. Nothing is loaded.
    ///
    /// # Errors
    /// [`Error::Io`] if one of the places cannot be examined.
    pub fn system_finds(&self, name: &str) -> Result<Option<PathBuf>> {
        match search::find(name, &[]) {
            Ok(path) => Ok(Some(path)),
            Err(Absence::Nowhere(_)) => Ok(None),
            Err(Absence::Unknown(error)) => Err(error),
        }
    }

    /// The address of `name` in the executable, its dependencies, and the objects that the system
    /// loader loaded globally or for a domain.
    pub fn system_symbol(&self, name: &str) -> Option<*const c_void> {
        let c_name = std::ffi::CString::new(name).ok()?;
        let address = dynamic::global_symbol(&c_name, None)
            .or_else(|| SYSTEM.objects().iter().find_map(|object| definition_of(object, name)))?;
        Some(address as *const c_void)
    }
}

/// The address of the definition of `name` that the program began with: its own, or that of the first preloaded object or library
/// that has one.
///
/// dlsym(3) may give another address. A program that is not position-independent and takes a function's address has a stub for it, which
/// has that name for all (System V psABI for AMD64, "Function Addresses"), and a call through the stub may be interposed.
pub fn definition_in_the_program(name: &str) -> Option<*const c_void> {
    let address = SYSTEM.global().iter().find_map(|object| definition_of(object, name))?;
    Some(address as *const c_void)
}

fn definition_of(object: &SystemObject, name: &str) -> Option<usize> {
    let (_, symbol) = object.symbols.lookup(Name::new(name.as_bytes()), None, true)?;
    match object.binding(&symbol) {
        Binding::Fixed { address, .. } => Some(address),
        _ => None,
    }
}

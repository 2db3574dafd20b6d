//! Domains and the replicas in them.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::sync::Lazy;
use parking_lot::{Mutex, ReentrantMutex, RwLock};

use crate::dl;
use crate::error::{Error, Result};
use crate::exit::{self};
use crate::flags::OpenFlags;
use crate::fork::{self, Held};
use crate::image::ImageId;
use crate::image::symbols::{Name, Symbol};
use crate::inspect::{self, Inspection};
use crate::library::Library;
use crate::lifetime::Uses;
use crate::load;
use crate::order;
use crate::plan::InterposedNames;
use crate::policy::{Class, Policy};
use crate::publish::{self};
use crate::replica::Replica;
use crate::run;
use crate::scope::{Definition, Order, Scope};
use crate::system::SystemObject;
use crate::thunk::{Interposition, Thunks};
use crate::{IMAGES, SYSTEM};

/// Identifies a domain for as long as the process runs; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(pub(crate) u32);

impl DomainId {
    /// The number itself: 0 for the first loader's commons, counting up.
    pub fn index(self) -> u32 {
        self.0
    }
}

/// What is known of a replica from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaInfo {
    /// The image's file, symbolic links resolved.
    pub path: PathBuf,
    /// Address of its lowest page.
    pub base: usize,
    /// Bytes of address space from there.
    pub size: usize,
}

/// What the global replicas of a domain need of the commons and of the system loader.
#[derive(Clone, Default)]
pub(crate) struct GlobalNeeds {
    pub commons: Vec<Arc<Replica>>,
    pub system: Vec<Arc<SystemObject>>,
}

impl GlobalNeeds {
    /// Puts them behind what `scope` has: a reference that names no library of its own for them
    /// finds them, as it does in a program that was linked with them.
    pub(crate) fn add_to(self, scope: &mut Scope) {
        self.commons.into_iter().for_each(|replica| scope.add_commons(Some(replica)));
        self.system.into_iter().for_each(|object| scope.add_system(object));
    }
}

/// The replicas of a domain.
#[derive(Default)]
pub(crate) struct State {
    /// In load order.
    pub replicas: Vec<Arc<Replica>>,
    pub by_image: HashMap<ImageId, Arc<Replica>>,
    /// Those opened with [`OpenFlags::GLOBAL`], in the order in which they became so.
    pub globals: Vec<Arc<Replica>>,
    /// What is shared and those need: theirs to find, and so everybody's (dlopen(3), RTLD_GLOBAL).
    pub global_needs: GlobalNeeds,
    /// Who keeps what open; counted in a domain that continues the program.
    pub uses: Uses,
}

pub(crate) struct DomainInner {
    pub id: DomainId,
    name: String,
    pub policy: Arc<Policy>,
    /// Whether it continues the program.
    pub program: bool,
    /// The domain of what is loaded once for all; none in that domain itself.
    pub commons: Option<Arc<DomainInner>>,
    /// One load at a time; a constructor may come back on the same thread.
    pub serial: ReentrantMutex<()>,
    pub state: Mutex<State>,
    pub interposed: InterposedNames,
    pub thunks: Thunks,
}

/// The symbol scope of one program among several: replicas that see each other, and nobody
/// else's. A domain lives until it is closed, with or without handles to it.
#[derive(Clone)]
pub struct Domain(pub(crate) Arc<DomainInner>);

impl std::fmt::Debug for Domain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Domain")
            .field("id", &self.0.id)
            .field("name", &self.0.name)
            .finish()
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
}

impl DomainBuilder {
    pub(crate) fn new(name: &str, policy: Arc<Policy>, commons: Option<Domain>) -> DomainBuilder {
        DomainBuilder {
            name: name.to_owned(),
            policy,
            commons,
            program: false,
            interpositions: HashMap::new(),
        }
    }

    /// Binds references to `symbol` from the domain's replicas to `interposition`, whoever defines
    /// the symbol. The last interposition of a symbol counts; the loader's own (the `dl*`
    /// functions, `__tls_get_addr`, `pthread_create`) can be replaced too.
    #[must_use]
    pub fn interpose(mut self, symbol: &str, interposition: Interposition) -> DomainBuilder {
        self.interpositions.insert(symbol.to_owned(), interposition);
        self
    }

    /// Makes the domain a part of the program instead of one beside it: `dlopen(3)` as the system
    /// loader has it, for libraries that this loader loads.
    ///
    /// What the system loader holds counts as loaded; symbols of the executable and of what it was
    /// linked with come before the domain's; a library is unloaded when nothing needs it any more
    /// after its last handle was closed. Code in the domain gives the guarantees that `dlclose(3)`
    /// asks for. A process has at most one use for such a domain.
    #[must_use]
    pub fn continue_program(mut self) -> DomainBuilder {
        self.program = true;
        self
    }

    /// Makes the domain.
    pub fn build(self) -> Result<Domain> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = DomainId(NEXT.fetch_add(1, Ordering::Relaxed));
        let mut table: HashMap<String, Interposition> = dl::interpositions(id)
            .into_iter()
            .map(|(name, entry)| (name.to_owned(), entry))
            .collect();
        table.extend(self.interpositions);
        let mut table: Vec<(String, Interposition)> = table.into_iter().collect();
        table.sort_by(|a, b| a.0.cmp(&b.0));
        let (names, entries): (Vec<_>, Vec<_>) = table.into_iter().unzip();
        let thunks = Thunks::generate(&entries).map_err(|source| Error::Memory {
            object: PathBuf::from(&self.name),
            action: "map the thunks of",
            length: entries.len() * crate::arch::THUNK_SIZE,
            source,
        })?;
        if self.program {
            SYSTEM.settle_program();
            // Before what the program registers: its destructors run first.
            run::destroy_at_exit();
        }
        let inner = Arc::new(DomainInner {
            id,
            name: self.name,
            policy: self.policy,
            program: self.program,
            commons: self.commons.map(|commons| commons.0),
            serial: ReentrantMutex::new(()),
            state: Mutex::new(State::default()),
            interposed: names.into(),
            thunks,
        });
        DOMAINS.write().insert(id, inner.clone());
        Ok(Domain(inner))
    }
}

/// The domains that were not closed. They live without any handle: their replicas' code may run.
static DOMAINS: Lazy<RwLock<HashMap<DomainId, Arc<DomainInner>>>> = Lazy::new(RwLock::default);

/// Takes the locks of all domains' states, for a fork.
pub(crate) fn hold_all() {
    let domains = DOMAINS.write();
    domains.values().for_each(|domain| domain.state.hold());
    std::mem::forget(domains);
}

/// Gives them back.
///
/// # Safety
/// [`hold_all`] was called before, by this thread or by the one that it is the copy of.
pub(crate) unsafe fn release_all() {
    // SAFETY: the map is locked by `hold_all`: nobody changes it meanwhile.
    let domains = unsafe { &*DOMAINS.data_ptr() };
    for domain in domains.values() {
        // SAFETY: the caller's promise.
        unsafe { domain.state.release() };
    }
    // SAFETY: as above.
    unsafe { DOMAINS.release() };
}

/// In the child of a fork: frees them, and the domains in which threads that are not there loaded.
///
/// # Safety
/// [`hold_all`] was called before, and the calling thread is the only one of the process.
pub(crate) unsafe fn reset_all() {
    // SAFETY: the caller's promise.
    let domains = unsafe { &*DOMAINS.data_ptr() };
    for domain in domains.values() {
        // SAFETY: the caller's promise.
        unsafe { domain.state.reset() };
        // SAFETY: as above.
        unsafe { fork::reset_unless_own(&domain.serial) };
    }
    // SAFETY: the caller's promise.
    unsafe { DOMAINS.reset() };
}

/// The domain with this id, unless it was closed.
pub(crate) fn by_id(id: DomainId) -> Option<Domain> {
    DOMAINS.read().get(&id).cloned().map(Domain)
}

impl Domain {
    /// The domain's id.
    pub fn id(&self) -> DomainId {
        self.0.id
    }

    /// The name given at its making, for messages.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Opens the file at `path` as a replica of this domain, with all that it needs, and runs the
    /// constructors. A file that the domain holds already is opened again, not loaded again.
    ///
    /// # Errors
    /// See [`Error`]; nothing of a failed load remains, except system libraries that it needed.
    ///
    /// # Safety
    /// Code of the file and of what it needs runs: constructors and resolvers of indirect functions now,
    /// destructors and handlers later. It must be sound to run it in this process and in several copies,
    /// and the symbols that it shares with other objects must have the same type in all of them. The
    /// files must not be written or truncated while the process runs.
    pub unsafe fn open(&self, path: &Path, flags: OpenFlags) -> Result<Library> {
        let image = IMAGES.open(path)?;
        load::open(self, image, Some(Class::Replicate), flags)
    }

    /// As [`Domain::open`], for an image that is no file: `bytes` are put into a sealed memory file
    /// named `name`. The same bytes under the same name are the same image in every domain.
    ///
    /// # Errors
    /// As for [`Domain::open`].
    ///
    /// # Safety
    /// As for [`Domain::open`].
    pub unsafe fn open_bytes(&self, name: &str, bytes: &[u8], flags: OpenFlags) -> Result<Library> {
        let image = IMAGES.open_bytes(name, bytes)?;
        load::open(self, image, Some(Class::Replicate), flags)
    }

    /// What the file at `path` is, which class it has for code of this domain and why, and what a
    /// replica costs. Nothing is loaded; dependencies that cannot be found are told, not an error.
    ///
    /// # Errors
    /// The file cannot be read, is no ELF file, or is one that the loader refuses.
    pub fn inspect(&self, path: &Path) -> Result<Inspection> {
        inspect::inspect(self, path)
    }

    /// The library that this file is in the domain, if it is loaded there.
    pub fn find(&self, path: &Path) -> Option<Library> {
        let image = IMAGES.open(path).ok()?;
        let replica = self.0.state.lock().by_image.get(&image.id).cloned()?;
        Some(Library::of_replica(self.clone(), replica))
    }

    /// The address of `name` as a replica of the domain would find it: interposition table, global
    /// replicas, system (RTLD_DEFAULT).
    pub fn symbol(&self, name: &str) -> Option<*const c_void> {
        if let Some(address) = self.interposed(name) {
            return Some(address as *const c_void);
        }
        self.lookup(&self.default_scope(), name).map(|address| address as *const c_void)
    }

    /// What references to `name` bind to by the interposition table.
    pub(crate) fn interposed(&self, name: &str) -> Option<usize> {
        let entry = self.0.interposed.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        Some(self.0.thunks.addresses[entry])
    }

    /// The domain's replicas, in load order.
    pub fn replicas(&self) -> Vec<ReplicaInfo> {
        let state = self.0.state.lock();
        state
            .replicas
            .iter()
            .map(|replica| ReplicaInfo {
                path: replica.image.path.clone(),
                base: replica.base,
                size: replica.memory.length(),
            })
            .collect()
    }

    /// The scope of a reference that belongs to no library.
    pub(crate) fn default_scope(&self) -> Scope {
        let system = SYSTEM.global();
        let state = self.0.state.lock();
        let images = state.replicas.iter().map(|replica| &replica.image);
        let mut scope = Scope {
            order: if self.0.program { Order::Program } else { Order::Domain },
            program: system.len(),
            globals: state.globals.iter().map(|replica| replica.image.clone()).collect(),
            uniques: images.filter(|image| image.defines_uniques()).cloned().collect(),
            system,
            ..Scope::default()
        };
        state.global_needs.clone().add_to(&mut scope);
        scope
    }

    /// The definition of `name` that stands for all unique ones (STB_GNU_UNIQUE) in the domain, whoever
    /// asks (glibc, elf/dl-lookup.c, do_lookup_unique).
    pub(crate) fn unique(&self, name: Name<'_>) -> Option<(ImageId, Symbol)> {
        let state = self.0.state.lock();
        let images = state.replicas.iter().map(|replica| &replica.image);
        let mut images = images.filter(|image| image.defines_uniques());
        images.find_map(|image| Some((image.id, image.unique(name)?)))
    }

    /// The address of `name` in a scope of this domain, as `dlsym` returns it.
    pub(crate) fn lookup(&self, scope: &Scope, name: &str) -> Option<usize> {
        self.address_of(scope.find(Name::new(name.as_bytes()), None, true)?)
    }

    /// What `dlsym` returns for a definition: a function's address (an indirect function's
    /// resolver has been asked), or the calling thread's copy of thread-local data.
    pub(crate) fn address_of(&self, definition: Definition) -> Option<usize> {
        Some(match definition {
            Definition::Fixed { address, .. } => address,
            Definition::FixedTls { block, offset } => block.address(offset),
            Definition::Image { image, symbol } => {
                let replica = {
                    let mut state = self.0.state.lock();
                    // Somebody has it now, for the program's life (glibc, do_lookup_unique).
                    if symbol.is_unique() {
                        state.uses.keep(image);
                    }
                    state.by_image.get(&image).cloned()?
                };
                match replica.definition(&symbol) {
                    Definition::Fixed { address, .. } => address,
                    Definition::FixedTls { block, offset } => block.address(offset),
                    Definition::Image { .. } => return None,
                }
            }
        })
    }

    /// Runs the destructors of the domain's replicas, last loaded first, and unmaps them.
    ///
    /// # Safety
    /// Nothing may run in, or refer to, the replicas any more: no thread, no callback registered
    /// with a system object, no object whose type they define. Handlers of exit and of fork that
    /// their code registered are called, or forgotten, here; a replica whose thread-local objects
    /// threads have still to destroy stays mapped until they have.
    pub unsafe fn close(self) {
        let _serial = self.0.serial.lock();
        let replicas = {
            let mut state = self.0.state.lock();
            state.globals.clear();
            state.by_image.clear();
            let replicas = std::mem::take(&mut state.replicas);
            if self.0.program {
                order::of_destruction(&replicas, &state.uses)
            } else {
                run::last_first(replicas)
            }
        };
        for replica in &replicas {
            run::destroy(replica);
        }
        publish::withdraw(&exit::without_pinned(replicas));
        DOMAINS.write().remove(&self.0.id);
    }
}

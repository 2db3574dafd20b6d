//! Domains and the replicas in them.

pub(crate) mod belongings;
pub(crate) mod data;
pub(crate) mod estate;
pub(crate) mod exits;
pub(crate) mod located;
pub(crate) mod needs;
pub(crate) mod order;
pub(crate) mod replica_entry;
pub(crate) mod uses;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::bind::binding::Binding;
use crate::bind::plan::Interposed;
use crate::bind::scope::{Order, Scope};
use crate::domain::belongings::Belongings;
use crate::domain::estate::Inheritance;
use crate::domain::exits::Exits;
use crate::domain::replica_entry::Entries;
use crate::domain::uses::Uses;
use crate::id::DomainId;
use crate::image::symbols::{Name, Symbol};
use crate::image::{Image, ImageId};
use crate::locale;
use crate::policy::Policy;
use crate::replica::Replica;
use crate::replica::link_map::LinkMap;
use crate::replica::thunk::Thunks;
use crate::sys::clibrary::CLibrary;
use crate::sys::environ::{Environment, forget_seen};
use crate::sys::lock::{Mutex, Once, Rank, Reentrant};
use crate::sys::record_locks::Owner;
use crate::system::SYSTEM;
use crate::system::SystemObject;
use crate::visible::redirect::Everywhere;

/// The public data of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaInfo {
    /// The image's file, symbolic links resolved.
    pub path: PathBuf,
    /// Address of its lowest page.
    pub base: usize,
    /// Bytes of address space from that page on.
    pub size: usize,
}

/// The needs of a domain's global replicas in the commons and in the system loader.
#[derive(Clone, Default)]
pub(crate) struct GlobalNeeds {
    pub commons: Vec<Arc<Replica>>,
    pub system: Vec<Arc<SystemObject>>,
}

impl GlobalNeeds {
    /// Appends them to `scope`. A reference then finds them although its own library does not name them, as
    /// in a program that was linked with them.
    pub(crate) fn add_to(self, scope: &mut Scope) {
        self.commons.into_iter().for_each(|replica| scope.add_commons(Some(replica)));
        self.system.into_iter().for_each(|object| scope.add_system(object));
    }
}

/// The replicas of a domain.
#[derive(Default)]
pub(crate) struct DomainState {
    /// In load order.
    pub entries: Entries,
    /// Those opened with RTLD_GLOBAL, in the order in which they became global.
    pub globals: Vec<Arc<Replica>>,
    /// The needs of `globals` outside of the domain. References of global replicas find them, and so do
    /// references of all others (dlopen(3), RTLD_GLOBAL).
    pub global_needs: GlobalNeeds,
    /// The uses that keep replicas loaded. Only a domain that extends the program unloads replicas.
    pub uses: Uses,
}

pub(crate) struct DomainInner {
    pub id: DomainId,
    pub name: String,
    pub policy: Arc<Policy>,
    /// Whether the domain extends the program.
    pub program: bool,
    /// The domain of libraries that are loaded once for all; none in that domain itself.
    pub commons: Option<Arc<DomainInner>>,
    /// One load at a time; a constructor may come back on the same thread.
    pub serial: Reentrant,
    pub state: Mutex<DomainState>,
    /// Replacements for definitions, in all code that may receive memory from its libraries.
    pub everywhere: Arc<[Everywhere]>,
    pub interposed: Arc<Interposed>,
    /// The place of the loader's own `__tls_get_addr` in the table; none if another function replaces it.
    pub tls_get_addr: Option<u32>,
    pub thunks: Thunks,
    /// The environment that only this domain has; none if it uses the process's.
    /// Boxed: thunks and relocated words hold its address.
    pub environment: Option<Box<Environment>>,
    /// Its own C library state, if it is one of many. Boxed: thunks hold addresses in it.
    pub c_library: Option<Box<CLibrary>>,
    /// The variable `environ` of the replica that has a steady one. Boxed for the same reason.
    pub _steady_environ: Option<Box<Environment>>,
    /// Its address is the handle of `dlopen(NULL)`.
    pub handle: Box<LinkMap>,
    /// The process resources that its code holds.
    pub belongings: Belongings,
    /// The owner of its record locks. Boxed: thunks hold its address.
    pub record_locks: Box<Owner>,
    /// Its exit handlers, if it is one of many.
    pub exits: Exits,
    /// Says whether threads other than the asking one run its code.
    pub is_busy: Once<IsBusy>,
    /// Places that it inherited from an ended domain.
    pub inherited: Mutex<Inheritance>,
    /// Whether pages of its replicas' data may have been replaced since the loader mapped them.
    pub data_was_replaced: AtomicBool,
}

/// The symbol scope of one program among several. Its replicas see each other, and not those of other
/// domains. A domain lives until it is closed, with or without handles to it.
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

/// The domains that are not closed. They live without handles, since their replicas' code may run.
static DOMAINS: Mutex<BTreeMap<DomainId, Arc<DomainInner>>> =
    Mutex::new(Rank::Domains, BTreeMap::new());

/// Adds a new domain to the list.
pub(crate) fn register(domain: &Domain) {
    DOMAINS.lock().insert(domain.id(), domain.0.clone());
}

/// Forgets a domain that was closed.
pub(crate) fn forget(id: DomainId) {
    let ended = DOMAINS.lock().remove(&id);
    if let Some(library) = ended.as_ref().and_then(|ended| ended.c_library.as_ref()) {
        library.end();
    }
    forget_seen(id);
    locale::forget(id);
}

/// The domain with this id, unless it was closed.
pub(crate) fn by_id(id: DomainId) -> Option<Domain> {
    DOMAINS.lock().get(&id).cloned().map(Domain)
}

/// A domain that `is_it` accepts.
pub(crate) fn find(is_it: impl Fn(&Domain) -> bool) -> Option<Domain> {
    DOMAINS.lock().values().map(|inner| Domain(inner.clone())).find(is_it)
}

/// Whether an exit of the process must leave some domain untouched.
pub(crate) fn is_any_busy() -> bool {
    let all: Vec<_> = DOMAINS.lock().values().cloned().map(Domain).collect();
    all.iter().any(Domain::is_busy)
}

/// Tells whether threads run a domain's code.
pub(crate) type IsBusy = Box<dyn Fn(&Domain) -> bool + Send + Sync>;

impl Domain {
    /// Leaves the domain untouched at an exit of the process while `is_busy`: its exit handlers and destructors do not run
    /// then, nor those of libraries that exist once for all domains. They would destroy data that other threads use. The
    /// exiting thread asks; the first call of this function counts.
    pub fn leave_at_exit_if(&self, is_busy: impl Fn(&Domain) -> bool + Send + Sync + 'static) {
        let is_busy: IsBusy = Box::new(is_busy);
        let _ = self.0.is_busy.get_or_try_init(|| Ok::<_, ()>(is_busy));
    }

    /// Whether an exit of the process must leave it untouched.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.is_busy.get().is_some_and(|is_busy| is_busy(self))
    }

    /// Whether its libraries are loaded once for all domains.
    pub(crate) fn is_commons(&self) -> bool {
        self.0.commons.is_none() && !self.0.program
    }

    /// Whether it is one program among several. The commons, and a domain that extends the program, belong to
    /// everybody.
    pub(crate) fn is_one_of_many(&self) -> bool {
        self.0.commons.is_some() && !self.0.program
    }

    /// The domain's id.
    pub fn id(&self) -> DomainId {
        self.0.id
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The address of `name` as a replica of the domain would find it: interposition table, global
    /// replicas, system (RTLD_DEFAULT).
    pub fn symbol(&self, name: &str) -> Option<*const c_void> {
        let interposed = || self.hand_out(self.interposed(name.as_bytes())?);
        let address = interposed().or_else(|| self.lookup(&self.default_scope(), name))?;
        Some(address as *const c_void)
    }

    /// The binding of references to `name`, if the interposition table has it.
    pub(crate) fn interposed(&self, name: &[u8]) -> Option<Binding> {
        self.0.interposed.by_name(name)
    }

    /// The domain's replicas, in load order.
    pub fn replicas(&self) -> Vec<ReplicaInfo> {
        let state = self.0.state.lock();
        state
            .entries
            .replicas()
            .map(|replica| ReplicaInfo {
                path: replica.image.path.clone(),
                base: replica.base,
                size: replica.memory.length(),
            })
            .collect()
    }

    /// The domain's replica of `image`.
    pub(crate) fn replica(&self, image: ImageId) -> Option<Arc<Replica>> {
        self.0.state.lock().entries.replica(image).cloned()
    }

    /// The scopes that `replica` searches. The scope of its own load is the first.
    pub(crate) fn scopes_of(&self, replica: &Replica) -> Vec<Arc<Scope>> {
        let state = self.0.state.lock();
        state.entries.of(replica).map(|entry| entry.scopes.clone()).unwrap_or_default()
    }

    /// The scope of a reference that belongs to no library.
    pub(crate) fn default_scope(&self) -> Scope {
        let system = SYSTEM.global();
        let state = self.0.state.lock();
        let images = || state.entries.replicas().map(|replica| &replica.image);
        let is_apart = |image: &&Arc<Image>| !self.0.program && self.0.policy.is_apart(&image.path);
        let mut scope = Scope {
            order: if self.0.program { Order::Program } else { Order::Domain },
            program: system.len(),
            globals: state.globals.iter().map(|replica| replica.image.clone()).collect(),
            uniques: images().filter(|image| image.defines_uniques()).cloned().collect(),
            apart: images().filter(is_apart).cloned().collect(),
            system,
            ..Scope::default()
        };
        state.global_needs.clone().add_to(&mut scope);
        scope
    }

    /// The result of `dlsym` for `asker`, which has found `symbol` with the definition `found`. For a unique symbol
    /// it is the definition that all share (see [`Scope::unique`]).
    pub(crate) fn one_for_all(
        &self,
        asker: &Replica,
        name: Name<'_>,
        symbol: &Symbol,
        found: Binding,
    ) -> Binding {
        if !symbol.is_unique() {
            return found;
        }
        let default = self.default_scope();
        let scope = match self.scopes_of(asker).first() {
            // Later loads have added images.
            Some(scope) => Scope { uniques: default.uniques, ..(**scope).clone() },
            None => default,
        };
        scope.unique(name).unwrap_or(found)
    }

    /// The address of `name` in a scope of this domain, as `dlsym` returns it.
    pub(crate) fn lookup(&self, scope: &Scope, name: &str) -> Option<usize> {
        let name = Name::new(name.as_bytes());
        self.hand_out(self.or_its_own(scope.find(name, None, true)?, name))
    }

    /// The definition that a look-up of `name` has found, or the domain's own in place of the C library's.
    pub(crate) fn or_its_own(&self, found: Binding, name: Name<'_>) -> Binding {
        let Binding::Fixed { address, .. } = found else { return found };
        self.0.interposed.in_the_c_library(address, name.text).unwrap_or(found)
    }

    /// The address that `dlsym` returns for a binding. A unique definition stays for the program's life from
    /// then on, because the caller has its address (glibc, elf/dl-lookup.c, do_lookup_unique).
    pub(crate) fn hand_out(&self, binding: Binding) -> Option<usize> {
        if let Binding::Image { image, symbol } = binding
            && symbol.is_unique()
        {
            self.0.state.lock().uses.keep(image);
        }
        self.address_of(binding)
    }

    /// The address that a look-up's binding stands for: a function's (after calling an indirect function's resolver), or that of
    /// the calling thread's copy of thread-local data.
    fn address_of(&self, binding: Binding) -> Option<usize> {
        match binding {
            Binding::Fixed { address, .. } => Some(address),
            Binding::FixedTls { block, offset } => Some(block.address(offset)),
            Binding::Image { image, symbol } => {
                self.address_of(self.replica(image)?.binding(&symbol))
            }
            Binding::Interposed(entry) => Some(self.0.thunks.addresses[entry as usize]),
            Binding::Missing(_) | Binding::Absent => None,
        }
    }
}

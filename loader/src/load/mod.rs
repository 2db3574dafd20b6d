//! One load, phase by phase: plan all, map all, relocate all, publish, run constructors.
//!
//! Nothing is visible before `publish`. An earlier error drops the mappings.

pub(crate) mod classify;
pub(crate) mod closure;
pub(crate) mod late_calls;
pub(crate) mod library;
pub(crate) mod providers;
pub(crate) mod retire;
pub(crate) mod run;
mod turn;
pub(crate) mod underlinked;
pub(crate) mod unload;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bind::plan::{Binder, Plan};
use crate::bind::relocate::{self, Definitions};
use crate::bind::scope::Scope;
use crate::domain::needs;
use crate::domain::order::{self, Root};
use crate::domain::replica_entry::{Need, ReplicaEntry};
use crate::domain::uses::Opened;
use crate::domain::{Domain, DomainState};
use crate::error::{Error, Result};
use crate::flags::OpenFlags;
use crate::image::IMAGES;
use crate::image::Image;
use crate::load::closure::{Closure, Edge, Surroundings};
use crate::load::library::Library;
use crate::load::providers::{needs_of, scope_of};
use crate::policy::Class;
use crate::replica::Replica;
use crate::replica::map;
use crate::sys::dynamic::SystemHandle;
use crate::system::SYSTEM;
use crate::tls::{self, Placed};
use crate::visible::{publish, redirect};

impl Domain {
    /// Opens the file at `path` as a replica of this domain, with its needs, and runs the constructors.
    /// A file that the domain already holds is opened again, not loaded again.
    ///
    /// # Errors
    /// See [`Error`]. A failed load leaves nothing behind, except system libraries that it needed.
    ///
    /// # Safety
    /// Code of the file and of its needs runs: constructors and resolvers of indirect functions now,
    /// destructors and handlers later. It must be sound to run it in this process and in several copies,
    /// and the symbols that it shares with other objects must have the same type in all of them. The
    /// files must not be written or truncated while the process runs.
    pub unsafe fn open(&self, path: &Path, flags: OpenFlags) -> Result<Library> {
        let image = IMAGES.open(path)?;
        open(self, image, Some(Class::Replicate), flags)
    }

    /// As [`Domain::open`], for an image that is not a file: `bytes` go into a sealed memory file named
    /// `name`. The same bytes under the same name are the same image in every domain.
    ///
    /// # Errors
    /// As for [`Domain::open`].
    ///
    /// # Safety
    /// As for [`Domain::open`].
    pub unsafe fn open_bytes(&self, name: &str, bytes: &[u8], flags: OpenFlags) -> Result<Library> {
        let image = IMAGES.open_bytes(name, bytes)?;
        open(self, image, Some(Class::Replicate), flags)
    }

    /// The domain's library of this file, if it is loaded there.
    pub fn find(&self, path: &Path) -> Option<Library> {
        let image = IMAGES.open(path).ok()?;
        let replica = self.replica(image.id)?;
        Some(Library::of_replica(self.clone(), replica))
    }
}

/// Opens `image` in `domain`. `forced` overrides its class.
pub(crate) fn open(
    domain: &Domain,
    image: Arc<Image>,
    forced: Option<Class>,
    flags: OpenFlags,
) -> Result<Library> {
    let _turn = turn::take(domain);
    let id = image.id;
    // This comes before anything is bound or constructed. A binding to a library that stays for good does
    // not count for the order of destructors, and a constructor may close another library (glibc,
    // elf/dl-open.c, dl_open_worker_begin).
    let newly_kept = {
        let mut state = domain.0.state.lock();
        state.uses.open(id);
        flags.has(OpenFlags::NODELETE) && state.uses.keep(id)
    };
    let library = open_uncounted(domain, image, forced, flags);
    let is_own =
        |library: &Library| library.replica().is_some_and(|replica| replica.domain == domain.id());
    if !library.as_ref().is_ok_and(is_own) {
        domain.0.state.lock().uses.withdraw(id, newly_kept);
    }
    library
}

fn open_uncounted(
    domain: &Domain,
    image: Arc<Image>,
    forced: Option<Class>,
    flags: OpenFlags,
) -> Result<Library> {
    if let Some(replica) = loaded(domain, &image) {
        // A library that was opened itself needs nothing more: its own open runs its constructors (glibc,
        // elf/dl-open.c, dl_open_worker_begin).
        let known = domain.0.state.lock().uses.opened.contains_key(&image.id);
        if !known {
            if domain.0.program
                && let Some(scope) = domain.scopes_of(&replica).first()
            {
                let needed = needs::needed_by(domain, &replica).replicas;
                let local = needed.iter().map(|replica| replica.image.clone()).collect();
                let scope = Arc::new(scope.of_other(local));
                needs::extend_scopes(&mut domain.0.state.lock(), &scope, true);
            }
            construct(domain, std::slice::from_ref(&replica), Root::AlreadyLoaded)?;
        }
        if flags.has(OpenFlags::GLOBAL) {
            make_global(domain, &image);
        }
        return Ok(Library::of_replica(domain.clone(), replica));
    }
    if flags.has(OpenFlags::NOLOAD) {
        if let Some(commons) = domain.0.commons.clone().map(Domain)
            && let Some(replica) = loaded(&commons, &image)
        {
            return Ok(Library::of_replica(commons, replica));
        }
        return match classify::object_for(domain, &image)? {
            Some(_) => open_by_system(domain, &image.path, flags),
            None => Err(Error::NotLoaded { object: image.path.clone() }),
        };
    }
    let started = Instant::now();
    let closure = match shared_part(domain, &image, forced, flags)? {
        Shared::Whole(library) => return Ok(library),
        Shared::Part(closure) => closure,
    };
    let closure_done = started.elapsed();
    load_group(domain, &closure, Class::Replicate, flags)?;
    tracing::debug!(
        domain = domain.name(),
        object = %image.path.display(),
        objects = closure.nodes.len(),
        closure_us = microseconds(closure_done),
        total_us = microseconds(started.elapsed()),
        "loaded"
    );
    let replica = loaded(domain, &image).expect("the group just loaded holds its root");
    Ok(Library::of_replica(domain.clone(), replica))
}

/// Microseconds with fractions, for events.
fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The part of a load that happens once for all domains.
enum Shared {
    /// All of it: the library belongs to the system or to the commons.
    Whole(Library),
    /// The needs of the domain's own replicas are loaded.
    Part(Closure),
}

/// Loads the libraries that domains share. The commons are locked meanwhile, so that two domains that find
/// a library absent do not both load it. They are not locked while the domain's own constructors run.
fn shared_part(
    domain: &Domain,
    image: &Arc<Image>,
    forced: Option<Class>,
    flags: OpenFlags,
) -> Result<Shared> {
    let commons = domain.0.commons.clone().map(Domain);
    let _turn = commons.as_ref().map(turn::take);
    // Another domain may have loaded it there. The closure only finds what the root *needs*.
    if forced.is_none_or(|class| class == Class::Commons)
        && let Some(commons) = &commons
        && let Some(replica) = loaded(commons, image)
    {
        return Ok(Shared::Whole(Library::of_replica(commons.clone(), replica)));
    }
    let mut closure = discover(domain, image.clone(), forced)?;
    if closure.nodes[0].class == Class::System {
        return open_by_system(domain, &image.path, flags).map(Shared::Whole);
    }
    open_system_nodes(&mut closure)?;
    if let Some(commons) = &commons {
        load_group(commons, &closure, Class::Commons, flags)?;
        if closure.nodes[0].class == Class::Commons {
            let replica = loaded(commons, image).expect("the group just loaded holds its root");
            return Ok(Shared::Whole(Library::of_replica(commons.clone(), replica)));
        }
    }
    Ok(Shared::Part(closure))
}

fn loaded(domain: &Domain, image: &Image) -> Option<Arc<Replica>> {
    domain.replica(image.id)
}

pub(crate) fn make_global(domain: &Domain, image: &Image) {
    // A library that is opened globally brings its needs into the global scope (dlopen(3)).
    let Some(root) = loaded(domain, image) else { return };
    let needed = needs::needed_by(domain, &root);
    let mut state = domain.0.state.lock();
    for replica in needed.replicas {
        if !state.globals.iter().any(|global| global.image.id == replica.image.id) {
            state.globals.push(replica);
        }
    }
    let shared = &mut state.global_needs;
    for replica in needed.commons {
        if !shared.commons.iter().any(|known| known.image.id == replica.image.id) {
            shared.commons.push(replica);
        }
    }
    for object in needed.system {
        if !shared.system.iter().any(|known| known.id == object.id) {
            shared.system.push(object);
        }
    }
}

/// The closure of `root` as this domain would load it.
pub(crate) fn discover(
    domain: &Domain,
    root: Arc<Image>,
    forced: Option<Class>,
) -> Result<Closure> {
    within(domain, true, |around| Closure::of(root, forced, around))
}

/// As [`discover`], for a root that may be impossible to load. Nothing is loaded or pinned.
pub(crate) fn survey(domain: &Domain, root: Arc<Image>, forced: Option<Class>) -> Result<Closure> {
    within(domain, false, |around| Closure::survey(root, forced, around))
}

fn within<T>(domain: &Domain, pins: bool, find: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    let (replicas, mut globals) = {
        let state = domain.0.state.lock();
        (state.entries.replicas().cloned().collect::<Vec<_>>(), state.globals.clone())
    };
    globals.retain(|replica| !domain.0.policy.is_apart(&replica.image.path));
    let commons = domain
        .0
        .commons
        .as_ref()
        .map(|commons| commons.state.lock().entries.replicas().cloned().collect::<Vec<_>>())
        .unwrap_or_default();
    find(&Surroundings {
        images: &IMAGES,
        policy: &domain.0.policy,
        program: domain.0.program,
        system: &SYSTEM,
        pins,
        replicas: &replicas,
        globals: &globals,
        commons: &commons,
    })
}

pub(crate) fn open_by_system(domain: &Domain, path: &Path, flags: OpenFlags) -> Result<Library> {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| {
        Error::System { object: path.to_owned(), message: "its name holds a NUL byte".into() }
    })?;
    let handle = SystemHandle::open(&name, flags.bits())
        .map_err(|message| Error::System { object: path.to_owned(), message })?;
    let base = handle.base().unwrap_or(0);
    Ok(Library::of_system(domain.clone(), handle.keep() as usize, base, path.to_owned()))
}

/// Loads, by the system loader, the system objects that the closure's other nodes need.
pub(crate) fn open_system_nodes(closure: &mut Closure) -> Result<()> {
    let mut index = 0;
    while index < closure.nodes.len() {
        let is_ours = closure.nodes[index].class != Class::System;
        match if is_ours { open_system_needs(index, closure)? } else { None } {
            // It has needs of its own, which may stand before this node.
            Some((node, symbol)) => {
                let reason = format!("on its own it lacks {symbol}, which its users bring");
                closure.replicate(node, reason)?;
                index = 0;
            }
            None => index += 1,
        }
    }
    Ok(())
}

/// Opens the needs of node `index` that the system loader handles. If one of them is underlinked, returns
/// its index and a symbol that it lacks.
fn open_system_needs(index: usize, closure: &mut Closure) -> Result<Option<(usize, String)>> {
    for edge in 0..closure.nodes[index].edges.len() {
        match &closure.nodes[index].edges[edge] {
            &Edge::Node(to) if closure.nodes[to].class == Class::System => {
                let mut seen = vec![false; closure.nodes.len()];
                if let Err(error) = open_system_node(to, closure, &mut seen) {
                    let named = underlinked::open_named(closure, to);
                    let symbol =
                        named.and_then(|named| underlinked::undefined(closure, to, &named));
                    return Ok(Some((to, symbol.ok_or(error)?)));
                }
            }
            Edge::SystemName(path) => {
                let object = SYSTEM.open(Path::new(path), libc::RTLD_LAZY)?;
                closure.nodes[index].edges[edge] = Edge::System(object);
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Opens one node by its path. The node then does not inherit the RPATH of the object that needs it, and
/// some libraries find their dependencies through that. If the open fails, the dependencies are opened
/// first, as far as they can be opened on their own.
fn open_system_node(index: usize, closure: &mut Closure, seen: &mut [bool]) -> Result<()> {
    if std::mem::replace(&mut seen[index], true) {
        return Ok(());
    }
    let path = closure.nodes[index].image.path.clone();
    let open = || SYSTEM.open(&path, libc::RTLD_LAZY);
    let object = match open() {
        Ok(object) => object,
        Err(error) => {
            for edge in 0..closure.nodes[index].edges.len() {
                if let Edge::Node(to) = closure.nodes[index].edges[edge]
                    && let Err(error) = open_system_node(to, closure, seen)
                {
                    tracing::debug!(%error, "a dependency cannot be opened on its own");
                }
            }
            open().map_err(|_| error)?
        }
    };
    closure.nodes[index].opened = Some(object);
    Ok(())
}

/// Loads the nodes of `class` into `domain`.
fn load_group(domain: &Domain, closure: &Closure, class: Class, flags: OpenFlags) -> Result<()> {
    let Some(group) = prepare_group(domain, closure, class, flags)? else { return Ok(()) };
    let replicas = group.replicas.clone();
    let started = Instant::now();
    publish::publish(&replicas)?;
    enter(&mut domain.0.state.lock(), group, domain.0.program);
    let published = started.elapsed();
    run::destroy_at_exit();
    let is_root = closure.nodes[0].class == class;
    construct(domain, &replicas, if is_root { Root::New } else { Root::None })?;
    // They stand behind the libraries that its constructors have opened (glibc, elf/dl-open.c,
    // dl_open_worker).
    if flags.has(OpenFlags::GLOBAL) {
        make_global(domain, &replicas[0].image);
    }
    tracing::debug!(
        publish_us = microseconds(published),
        run_us = microseconds(started.elapsed() - published),
        "visible"
    );
    Ok(())
}

/// Makes a relocated group a part of its domain.
fn enter(state: &mut DomainState, group: Group, program: bool) {
    let Group { replicas, plans, needs, scope, root } = group;
    for (replica, needs) in replicas.iter().zip(needs) {
        state.entries.push(ReplicaEntry::new(replica.clone(), needs, scope.clone()));
        if replica.image.dynamic.no_delete {
            state.uses.keep(replica.image.id);
        }
    }
    // Only a domain that extends the program unloads replicas.
    if program {
        for replica in order::of_construction(&state.entries, &replicas, root, &Opened::new()) {
            let index = replicas.iter().position(|other| Arc::ptr_eq(other, &replica));
            let index = index.expect("the same replicas");
            let scope = (index == 0).then_some(&*scope);
            needs::note_bindings(state, replica.image.id, &plans[index], scope);
        }
    }
    needs::extend_scopes(state, &scope, program);
}

/// Runs the constructors of `replicas`. If the first of them was opened, this returns after all its needs
/// are constructed. A constructor that opens a library of its own load, or one that needs such a library,
/// therefore runs others of its load early (glibc, elf/dl-init.c).
///
/// # Errors
/// [`Error::Exception`] if a constructor of one of them, or of a library that they need, throws or has thrown
/// before.
pub(crate) fn construct(domain: &Domain, replicas: &[Arc<Replica>], root: Root) -> Result<()> {
    needs::refuse_failed(domain, replicas)?;
    let waiting = |replicas: &[Arc<Replica>]| {
        let entries = &domain.0.state.lock().entries;
        let of_them = replicas.iter().filter_map(|replica| entries.of(replica));
        of_them.filter(|entry| !entry.has_begun()).count()
    };
    let all_waiting =
        || domain.0.state.lock().entries.iter().filter(|entry| !entry.has_begun()).count();
    let others_wait = || all_waiting() > waiting(replicas);
    let mut all = replicas.to_vec();
    if root != Root::None && (domain.0.program || others_wait()) {
        all = needs::needed_by(domain, &replicas[0]).replicas;
        // It may stand behind the objects that it is a filter of.
        let first = all.iter().position(|replica| Arc::ptr_eq(replica, &replicas[0]));
        all[..=first.expect("its closure holds it")].rotate_right(1);
    }
    let ordered = {
        let DomainState { entries, uses, .. } = &mut *domain.0.state.lock();
        let ordered = order::of_construction(entries, &all, root, &uses.opened);
        if root != Root::None {
            let last_first = ordered.iter().rev().skip(1);
            uses.opened
                .insert(all[0].image.id, last_first.map(|replica| replica.image.id).collect());
        }
        ordered
    };
    if waiting(&all) > 0 {
        let mut constructed = order::with_first(ordered).into_iter();
        if let Err(error) = constructed.try_for_each(|replica| run::construct(domain, &replica)) {
            // A further open must not take it for constructed.
            domain.0.state.lock().uses.opened.remove(&all[0].image.id);
            return Err(error);
        }
    }
    Ok(())
}

/// Replicas that are relocated, and that only their load knows.
pub(crate) struct Group {
    /// In breadth-first order.
    pub replicas: Vec<Arc<Replica>>,
    plans: Vec<Arc<Plan>>,
    needs: Vec<Vec<Need>>,
    /// The scope that all of them were bound in.
    scope: Arc<Scope>,
    root: Root,
}

/// The phases of a load before publication: plan, map, relocate. Nothing if no node is of `class`.
pub(crate) fn prepare_group(
    domain: &Domain,
    closure: &Closure,
    class: Class,
    flags: OpenFlags,
) -> Result<Option<Group>> {
    let members: Vec<usize> = closure.of_class(class).collect();
    if members.is_empty() {
        return Ok(None);
    }
    let started = Instant::now();
    let images: Vec<Arc<Image>> =
        members.iter().map(|&index| closure.nodes[index].image.clone()).collect();
    let scope = Arc::new(scope_of(domain, closure, &members, &images, flags));

    let binder = Binder::new(&scope, domain.0.interposed.clone(), flags.has(OpenFlags::NOW));
    let planned = images.iter().map(|image| binder.plan(image)).collect();
    let plans = all_or_first_error(planned, closure, &members)?;
    // They may free memory that replicas allocate: what replicas give them, or by the one copy of a C++ inline function in a scope.
    for definer in plans.iter().flat_map(|plan| &plan.definers) {
        redirect::everywhere(definer, &domain.0.everywhere)?;
    }

    let static_tls: HashSet<_> =
        images.iter().zip(&plans).flat_map(|(image, plan)| plan.static_tls(image)).collect();
    let planned = started.elapsed();
    let replicas = images
        .iter()
        .zip(&plans)
        .zip(&members)
        .map(|((image, plan), &index)| {
            let brought_by = closure.ancestors(index);
            let static_tls = static_tls.contains(&image.id);
            map_replica(domain, image, plan, brought_by, static_tls).map(Arc::new)
        })
        .collect::<Result<Vec<_>>>()?;

    let mapped = started.elapsed();
    relocate_all(domain, &replicas, &plans)?;
    tracing::debug!(
        plan_us = microseconds(planned),
        map_us = microseconds(mapped - planned),
        relocate_us = microseconds(started.elapsed() - mapped),
        "relocated"
    );
    let needs = members.iter().map(|&index| needs_of(closure, index)).collect();
    let root = if members[0] == 0 { Root::New } else { Root::None };
    Ok(Some(Group { replicas, plans, needs, scope, root }))
}

/// The plans. If several objects of a load cannot be bound, the error of the one that the system loader would
/// relocate first: it relocates an object after its needs.
fn all_or_first_error(
    planned: Vec<Result<Arc<Plan>>>,
    closure: &Closure,
    members: &[usize],
) -> Result<Vec<Arc<Plan>>> {
    if planned.iter().all(|plan| plan.is_ok()) {
        return planned.into_iter().collect();
    }
    let order = order::dependencies_first(members.len(), |index| {
        if members[index] == 0 {
            return Vec::new();
        }
        let edges = closure.nodes[members[index]].edges.iter();
        edges
            .filter_map(|edge| match edge {
                Edge::Node(to) => members.iter().position(|member| *member == *to),
                _ => None,
            })
            .collect()
    });
    let place = |index: usize| order.iter().position(|other| *other == index);
    // The root comes last, as in `order::of_construction`.
    let mut planned: Vec<_> = planned.into_iter().enumerate().collect();
    planned.sort_by_key(|(index, _)| (members[*index] == 0, place(*index)));
    planned.into_iter().map(|(_, plan)| plan).collect()
}

/// Maps an image and gives it TLS. Words that need only the replica's own address are relocated; others
/// are not.
fn map_replica(
    domain: &Domain,
    image: &Arc<Image>,
    plan: &Plan,
    brought_by: Vec<Arc<Image>>,
    static_tls: bool,
) -> Result<Replica> {
    let place = domain.inherit(image);
    let (place, inherited_tls) = place.map_or((None, None), |(place, tls)| (Some(place), tls));
    let memory = map::map(image, &plan.prepared.words, place)?;
    let inherited_tls = inherited_tls.and_then(|placed| placed.recycle(static_tls));
    let tls = match (image.tls, inherited_tls) {
        (Some(_), Some(placed)) => Some(placed),
        (Some(tls), None) => {
            Some(tls::place(&image.path, tls, memory.base() + tls.address, static_tls)?)
        }
        (None, _) => None,
    };
    let late = late_calls::thunks(domain.id(), image, &plan.missing)?;
    Ok(Replica::new(image, domain.id(), memory, tls, brought_by, late))
}

/// Applies the plans to all replicas, then the results of resolvers. Then initialises thread-local data and
/// protects RELRO.
fn relocate_all(domain: &Domain, replicas: &[Arc<Replica>], plans: &[Arc<Plan>]) -> Result<()> {
    let existing: Vec<Arc<Replica>> = domain.0.state.lock().entries.replicas().cloned().collect();
    let by_image: HashMap<_, _> =
        existing.iter().chain(replicas).map(|replica| (replica.image.id, &**replica)).collect();
    let mut deferred = Vec::new();
    for (replica, plan) in replicas.iter().zip(plans) {
        let providers = plan.images.iter().map(|provider| provider.image);
        let definitions = Definitions {
            replicas: providers.filter_map(|image| by_image.get(&image).copied()).collect(),
            interpositions: &domain.0.thunks.addresses,
            tls_get_addr: domain.0.tls_get_addr,
        };
        deferred.push(relocate::relocate(replica, plan, &definitions)?);
    }
    // Resolvers are code of the replicas, which is not executable while text relocations write to it.
    for replica in replicas {
        map::protect_text(&replica.image, &replica.memory)?;
    }
    let touch = || replicas.iter().filter_map(|replica| replica.tls()).for_each(Placed::touch);
    if deferred.iter().any(|entries| !entries.is_empty()) {
        touch();
    }
    // Dependencies stand later in breadth-first order. Their resolvers run first.
    for (replica, entries) in replicas.iter().zip(&deferred).rev() {
        relocate::apply_deferred(replica, entries)?;
    }
    for replica in replicas {
        if let (Some(placed), Some(tls)) = (replica.tls(), replica.image.tls) {
            tls::initialise(&replica.image.path, placed, tls, replica.base + tls.address)?;
        }
    }
    for replica in replicas {
        map::protect_relro(&replica.image, &replica.memory)?;
    }
    touch();
    Ok(())
}

//! The needs of replicas: the objects of their DT_NEEDED entries, and those to which their references are
//! bound.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::bind::plan::Plan;
use crate::bind::scope::Scope;
use crate::domain::replica_entry::Need;
use crate::domain::{Domain, DomainState};
use crate::error::{Error, Result};
use crate::image::ImageId;
use crate::replica::Replica;
use crate::system::{SYSTEM, SystemObject};

/// A replica and its needs, direct and indirect, breadth first.
#[derive(Default)]
pub(crate) struct Needed {
    pub replicas: Vec<Arc<Replica>>,
    pub commons: Vec<Arc<Replica>>,
    pub system: Vec<Arc<SystemObject>>,
}

/// Refuses `replicas` if one of them, or a replica that they need, has a constructor that threw an exception. Each
/// further open of such a library gives the error of the first.
///
/// # Errors
/// [`Error::Exception`].
pub(crate) fn refuse_failed(domain: &Domain, replicas: &[Arc<Replica>]) -> Result<()> {
    let failed = |domain: &Domain| -> Vec<(Arc<Replica>, Arc<str>)> {
        let state = domain.0.state.lock();
        let entries = state.entries.iter();
        entries.filter_map(|entry| Some((entry.replica.clone(), entry.failure.clone()?))).collect()
    };
    let mut all = failed(domain);
    all.extend(domain.0.commons.clone().map(Domain).iter().flat_map(failed));
    if all.is_empty() {
        return Ok(());
    }
    for replica in replicas {
        let needed = needed_by(domain, replica);
        for found in needed.replicas.iter().chain(&needed.commons) {
            if let Some((failed, exception)) =
                all.iter().find(|failed| Arc::ptr_eq(&failed.0, found))
            {
                return Err(Error::constructor(failed, exception));
            }
        }
    }
    Ok(())
}

impl Error {
    /// A constructor of `replica` threw.
    pub(crate) fn constructor(replica: &Replica, exception: &str) -> Error {
        Error::Exception { object: replica.image.path.clone(), exception: exception.to_owned() }
    }
}

/// The objects that `dlsym` searches on a handle of `root` (gABI, "Shared Object Dependencies").
pub(crate) fn needed_by(domain: &Domain, root: &Arc<Replica>) -> Needed {
    // One domain at a time: no two locks of one rank are held.
    let of = |domain: &Domain, image: ImageId| {
        let state = domain.0.state.lock();
        state.entries.get(image).map(|entry| (entry.replica.clone(), entry.needs.clone()))
    };
    let commons = domain.0.commons.clone().map(Domain);
    let mut needed = Needed::default();
    let mut queue = VecDeque::from([Need::Replica(root.image.id)]);
    while let Some(need) = queue.pop_front() {
        let (list, found) = match need {
            Need::System(object) => {
                for object in SYSTEM.closure(&object) {
                    if !needed.system.iter().any(|known| known.id == object.id) {
                        needed.system.push(object);
                    }
                }
                continue;
            }
            // The root may be on its way out of the domain already.
            Need::Replica(image) | Need::Filtee(image) if image == root.image.id => {
                let state = domain.0.state.lock();
                let needs = state.entries.of(root).map(|entry| entry.needs.clone());
                (&mut needed.replicas, Some((root.clone(), needs.unwrap_or_default())))
            }
            Need::Replica(image) | Need::Filtee(image) => (&mut needed.replicas, of(domain, image)),
            Need::Commons(image) => {
                (&mut needed.commons, commons.as_ref().and_then(|commons| of(commons, image)))
            }
        };
        let Some((replica, needs)) = found else { continue };
        let is_known =
            |list: &[Arc<Replica>], image| list.iter().any(|known| known.image.id == image);
        if is_known(list, replica.image.id) {
            continue;
        }
        for need in needs.iter() {
            if let Need::Filtee(image) = *need
                && !is_known(list, image)
                && let Some((filtee, needs)) = of(domain, image)
            {
                queue.extend(needs.iter().cloned());
                list.push(filtee);
            }
        }
        queue.extend(needs.iter().cloned());
        list.push(replica);
    }
    needed
}

/// Records the objects that the references of the replica of `image` keep loaded, and those that must end
/// after it. A definition that stays for good at the time of binding does not count for the order (glibc,
/// elf/dl-lookup.c, add_dependency). The replicas of a load are recorded in the order in which glibc relocates
/// them. `scope` is the scope of the load if the replica was opened: it leads to all of that scope.
pub(crate) fn note_bindings(
    state: &mut DomainState,
    image: ImageId,
    plan: &Plan,
    scope: Option<&Scope>,
) {
    for bound in &plan.images {
        let is_near = match scope {
            Some(scope) => scope.local.iter().any(|near| near.id == bound.image),
            None => leads_to(state, image, bound.image),
        };
        // A unique symbol is one entity for the program's life (glibc, elf/dl-lookup.c, do_lookup_unique).
        if bound.first_is_unique {
            state.uses.keep(bound.image);
        }
        let ends_before = !state.uses.keeps(bound.image) && !is_near;
        if bound.has_unique {
            state.uses.keep(bound.image);
        }
        let Some(entry) = state.entries.get_mut(image) else { continue };
        entry.bound.insert(bound.image);
        if ends_before && !entry.ends_before.contains(&bound.image) {
            entry.ends_before.push(bound.image);
        }
    }
}

/// Records that the code of `caller` has asked for a definition of the replica of `image`. That replica stays
/// as long as the caller does.
pub(crate) fn note_reference(state: &mut DomainState, caller: &Replica, image: ImageId) {
    let ends_before = !state.uses.keeps(image) && !leads_to(state, caller.image.id, image);
    let Some(entry) = state.entries.of_mut(caller) else { return };
    entry.bound.insert(image);
    if ends_before && !entry.ends_before.contains(&image) {
        entry.ends_before.push(image);
    }
}

/// Whether the replica of `from` ends before that of `image` without being bound to it: it is the same image,
/// or is known to lead to it (glibc, elf/dl-lookup.c, add_dependency, which checks `l_initfini` first).
pub(crate) fn leads_to(state: &DomainState, from: ImageId, image: ImageId) -> bool {
    from == image
        || match state.uses.opened.get(&from) {
            Some(all) => all.contains(&image),
            None => state
                .entries
                .get(from)
                .is_some_and(|entry| entry.needed().any(|needed| needed == image)),
        }
}

/// Adds this `scope` of a load to its needs that were loaded before. They search it too for late calls, and
/// for RTLD_DEFAULT in a domain that extends the `program`. A replica that has not begun yet belongs to an
/// enclosing load and does not get the scope (glibc, elf/dl-open.c, update_scopes).
pub(crate) fn extend_scopes(state: &mut DomainState, scope: &Arc<Scope>, program: bool) {
    for image in &scope.local {
        if let Some(earlier) = state.entries.get_mut(image.id)
            && earlier.has_begun()
            && (program || earlier.replica.late.is_some())
        {
            earlier.scopes.push(scope.clone());
        }
    }
}

/// Removes the scopes of loads whose first library is gone from all replicas that stay. A replica that was
/// never opened itself then has a scope of its own: itself and the libraries that it names in DT_NEEDED. It
/// counts as opened for the order of destructors and for later opens (glibc, elf/dl-close.c,
/// _dl_close_worker).
pub(crate) fn leave_scopes(state: &mut DomainState) {
    let DomainState { entries, uses, .. } = state;
    let images: Vec<_> = entries.replicas().map(|replica| replica.image.clone()).collect();
    let loaded: HashSet<ImageId> = images.iter().map(|image| image.id).collect();
    let is_open =
        |scope: &Arc<Scope>| scope.local.first().is_some_and(|first| loaded.contains(&first.id));
    for entry in entries.iter_mut() {
        let Some(place) = entry.scopes.iter().position(|scope| !is_open(scope)) else { continue };
        let gone = entry.scopes[place].clone();
        entry.scopes.retain(is_open);
        let own = &entry.replica.image;
        if uses.opened.contains_key(&own.id) {
            continue;
        }
        let needed = entry.needed().filter_map(|id| images.iter().find(|image| image.id == id));
        let needed: Vec<_> = needed.cloned().collect();
        uses.opened.insert(own.id, needed.iter().map(|image| image.id).collect());
        let local = [own.clone()].into_iter().chain(needed).collect();
        entry.scopes.insert(place, Arc::new(gone.of_other(local)));
    }
}

//! The needs of replicas: the objects of their DT_NEEDED entries, and those to which their references are
//! bound.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::bind::binding::Binding;
use crate::bind::plan::Plan;
use crate::bind::scope::Scope;
use crate::domain::{Domain, State};
use crate::image::ImageId;
use crate::replica::Replica;
use crate::system::SYSTEM;
use crate::system::SystemObject;

/// A DT_NEEDED entry of a loaded replica. It names replicas by their images, so that replicas that need
/// each other do not keep each other in memory.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    Replica(ImageId),
    /// Of the domain; it stands before what needs it (DT_FILTER, DT_AUXILIARY).
    Filtee(ImageId),
    Commons(ImageId),
    System(Arc<SystemObject>),
}

/// A replica and its needs, direct and indirect, breadth first.
#[derive(Default)]
pub(crate) struct Needed {
    pub replicas: Vec<Arc<Replica>>,
    pub commons: Vec<Arc<Replica>>,
    pub system: Vec<Arc<SystemObject>>,
}

/// The objects that `dlsym` searches on a handle of `root` (gABI, "Shared Object Dependencies").
pub(crate) fn needed_by(domain: &Domain, root: &Arc<Replica>) -> Needed {
    let of = |domain: &Domain, image: ImageId| domain.0.state.lock().by_image.get(&image).cloned();
    let commons = domain.0.commons.clone().map(Domain);
    let mut needed = Needed::default();
    let mut queue = VecDeque::from([Need::Replica(root.image.id)]);
    while let Some(need) = queue.pop_front() {
        let (list, replica) = match need {
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
                (&mut needed.replicas, Some(root.clone()))
            }
            Need::Replica(image) | Need::Filtee(image) => (&mut needed.replicas, of(domain, image)),
            Need::Commons(image) => {
                (&mut needed.commons, commons.as_ref().and_then(|commons| of(commons, image)))
            }
        };
        let Some(replica) = replica else { continue };
        let is_known =
            |list: &[Arc<Replica>], image| list.iter().any(|known| known.image.id == image);
        if is_known(list, replica.image.id) {
            continue;
        }
        for need in replica.needs.get().into_iter().flatten() {
            if let Need::Filtee(image) = *need
                && !is_known(list, image)
                && let Some(filtee) = of(domain, image)
            {
                queue.extend(filtee.needs.get().into_iter().flatten().cloned());
                list.push(filtee);
            }
        }
        queue.extend(replica.needs.get().into_iter().flatten().cloned());
        list.push(replica);
    }
    needed
}

/// Records the objects that the replica's references keep loaded, and those that must end after it. A
/// definition that stays for good at the time of binding does not count for the order (glibc,
/// elf/dl-lookup.c, add_dependency). The replicas of a load, `group`, are recorded in the order in which
/// glibc relocates them.
pub(crate) fn note_bindings(
    domain: &Domain,
    replica: &Replica,
    plan: &Plan,
    group: &[Arc<Replica>],
) {
    replica.bound.lock().extend(&plan.images);
    let mut state = domain.0.state.lock();
    let root = group.first().filter(|first| first.image.id == replica.image.id);
    let mut ends_before = replica.ends_before.lock();
    for rela in replica.image.dynamic.rela().filter(|rela| rela.symbol != 0) {
        let Binding::Image { image, symbol } = plan.binding(rela.symbol) else { continue };
        let image = plan.images[image as usize];
        if symbol.is_unique() {
            // One entity for the program's life (glibc, elf/dl-lookup.c, do_lookup_unique).
            state.uses.keep(image);
        }
        let mut group = group.iter().filter(|other| other.image.dynamic.no_delete);
        // What is opened leads to all of its scope.
        let is_near = match root.and_then(|root| root.scope()) {
            Some(scope) => scope.local.iter().any(|near| near.id == image),
            None => leads_to(&state, replica, image),
        };
        if !state.uses.keeps(image)
            && !group.any(|other| other.image.id == image)
            && !is_near
            && !ends_before.contains(&image)
        {
            ends_before.push(image);
        }
    }
}

/// Whether `replica` ends before `image` without being bound to it: it is the same image, or is known to
/// lead to it (glibc, elf/dl-lookup.c, add_dependency, which checks `l_initfini` first).
pub(crate) fn leads_to(state: &State, replica: &Replica, image: ImageId) -> bool {
    replica.image.id == image
        || match state.uses.opened.get(&replica.image.id) {
            Some(all) => all.contains(&image),
            None => replica.needs.get().into_iter().flatten().any(|need| match need {
                Need::Replica(need) | Need::Filtee(need) => *need == image,
                Need::Commons(_) | Need::System(_) => false,
            }),
        }
}

/// Adds this `scope` of a load to its needs that were loaded before. They search it too when they bind a
/// call late, or ask for RTLD_DEFAULT in a domain that continues the `program`. A replica that has not
/// begun yet belongs to an enclosing load and does not get the scope (glibc, elf/dl-open.c,
/// update_scopes).
pub(crate) fn extend_scopes(state: &State, scope: &Arc<Scope>, program: bool) {
    for image in &scope.local {
        if let Some(earlier) = state.by_image.get(&image.id)
            && earlier.has_begun()
            && (program || earlier.late.is_some())
        {
            earlier.scopes.lock().push(scope.clone());
        }
    }
}

/// Removes the scopes of loads whose first library is gone from `replica`, which stays. A replica that was
/// never opened itself then has a scope of its own: itself and the libraries that it names in DT_NEEDED. It
/// counts as opened for the order of destructors and for later opens (glibc, elf/dl-close.c,
/// _dl_close_worker).
pub(crate) fn leave_scopes(state: &mut State, replica: &Replica) {
    let is_open = |scope: &Arc<Scope>| {
        scope.local.first().is_some_and(|first| state.by_image.contains_key(&first.id))
    };
    let mut scopes = replica.scopes.lock();
    let Some(place) = scopes.iter().position(|scope| !is_open(scope)) else { return };
    let gone = scopes[place].clone();
    scopes.retain(is_open);
    if state.uses.opened.contains_key(&replica.image.id) {
        return;
    }
    let needs = replica.needs.get().into_iter().flatten().filter_map(|need| match need {
        Need::Replica(image) | Need::Filtee(image) => state.by_image.get(image),
        Need::Commons(_) | Need::System(_) => None,
    });
    let needs: Vec<_> = needs.map(|need| need.image.clone()).collect();
    let leads_to = needs.iter().map(|image| image.id).collect();
    let local = [replica.image.clone()].into_iter().chain(needs).collect();
    scopes.insert(place, Arc::new(gone.of_other(local)));
    state.uses.opened.insert(replica.image.id, leads_to);
}

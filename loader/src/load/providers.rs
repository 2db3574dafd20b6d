//! The ends of a closure's edges: the needs of each replica, and the scope of the group.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::bind::scope::{Order, Scope};
use crate::domain::replica_entry::Need;
use crate::domain::{Domain, DomainInner};
use crate::flags::OpenFlags;
use crate::image::{Image, ImageId};
use crate::load::closure::{Closure, Edge};
use crate::policy::Class;
use crate::replica::Replica;
use crate::system::SYSTEM;
use crate::system::SystemObject;

/// The needs of a node's replica, in the order of its edges.
pub(crate) fn needs_of(closure: &Closure, index: usize) -> Vec<Need> {
    let need = |edge: &Edge| match provider_of(edge)? {
        Provider::Replica(replica) => Some(Need::Replica(replica.image.id)),
        Provider::Commons(replica) => Some(Need::Commons(replica.image.id)),
        Provider::System(object) => Some(Need::System(object)),
        Provider::Node(index) => {
            let node = &closure.nodes[index];
            match node.class {
                Class::Replicate => Some(Need::Replica(node.image.id)),
                Class::Commons => Some(Need::Commons(node.image.id)),
                Class::System => node.opened.clone().map(Need::System),
            }
        }
    };
    let node = &closure.nodes[index];
    let filtee = |need| match need {
        Need::Replica(image) => Need::Filtee(image),
        other => other,
    };
    let (filtees, needed) = node.edges.split_at(node.filtees);
    let filtees = filtees.iter().filter_map(need).map(filtee);
    filtees.chain(needed.iter().filter_map(need)).collect()
}

/// An object that a group's references may bind to.
#[derive(Clone)]
enum Provider {
    Node(usize),
    Replica(Arc<Replica>),
    Commons(Arc<Replica>),
    System(Arc<SystemObject>),
}

/// The scope of a group: objects that its root leads to, new and loaded before, breadth first in the order of
/// DT_NEEDED (gABI, "Shared Object Dependencies"). If two objects define a name, the one at fewer steps counts.
pub(crate) fn scope_of(
    domain: &Domain,
    closure: &Closure,
    members: &[usize],
    images: &[Arc<Image>],
    flags: OpenFlags,
) -> Scope {
    let program = domain.0.program;
    let mut scope = scope_before(domain, images, flags);
    // The group's root is the first member, unless the root is of another class: then every
    // member is reached from it in breadth-first order, which is the order of the members.
    let mut queue: VecDeque<Provider> =
        members.iter().map(|&index| Provider::Node(index)).collect();
    if members.first() == Some(&0) {
        queue.truncate(1);
    }
    let mut seen_nodes = vec![false; closure.nodes.len()];
    let mut seen_replicas = HashSet::new();
    let mut inherited = Vec::new();
    while let Some(provider) = queue.pop_front() {
        match provider {
            Provider::Node(index) => {
                if std::mem::replace(&mut seen_nodes[index], true) {
                    continue;
                }
                let node = &closure.nodes[index];
                // In a load of the commons the group is of class Commons, and the domain has no commons.
                let is_own = members.contains(&index);
                match if is_own { Class::Replicate } else { node.class } {
                    Class::Replicate => {
                        closure.with_filtees(index).iter().for_each(|image| scope.add_local(image));
                    }
                    Class::Commons => {
                        let commons = domain.0.commons.as_ref().and_then(|commons| {
                            commons.state.lock().entries.replica(node.image.id).cloned()
                        });
                        scope.add_commons(commons);
                    }
                    // Its own needs are the objects that the system loader found for it.
                    Class::System => {
                        let object = node.opened.clone().into_iter();
                        queue.extend(object.flat_map(|object| scope.add_object(object)));
                        continue;
                    }
                }
                queue.extend(node.edges.iter().filter_map(provider_of));
            }
            Provider::Replica(replica) => {
                // Replicas that need each other lead back to each other.
                if !seen_replicas.insert(replica.image.id) {
                    continue;
                }
                queue.extend(add_replica(domain, &mut scope, &replica));
                if !program {
                    inherited.extend(first_scope(&domain.0, &replica).map(|scope| (scope, None)));
                }
            }
            Provider::Commons(replica) => {
                // A load of the commons finds those that were loaded before.
                let commons = domain.0.commons.as_ref().unwrap_or(&domain.0);
                let bound_in = first_scope(commons, &replica);
                inherited.extend(bound_in.map(|scope| (scope, Some(commons))));
                scope.add_commons(Some(replica));
            }
            Provider::System(object) => queue.extend(scope.add_object(object)),
        }
    }
    for (other, commons) in inherited {
        inherit(&mut scope, &other, commons);
    }
    let state = domain.0.state.lock();
    state.global_needs.clone().add_to(&mut scope);
    let all = || state.entries.replicas().map(|replica| &replica.image).chain(images);
    scope.find_shadowed(all());
    let is_apart = |image: &&Arc<Image>| !program && domain.0.policy.is_apart(&image.path);
    scope.apart = all().filter(is_apart).cloned().collect();
    drop(state);
    scope
}

/// The scope of a group of `images` without the providers of this load: it holds the global replicas of the
/// domain and the global objects of the system loader.
fn scope_before(domain: &Domain, images: &[Arc<Image>], flags: OpenFlags) -> Scope {
    let system = SYSTEM.global();
    let state = domain.0.state.lock();
    let loaded = state.entries.replicas().map(|replica| &replica.image);
    let uniques = loaded.chain(images).filter(|image| image.defines_uniques());
    Scope {
        globals: state.globals.iter().map(|replica| replica.image.clone()).collect(),
        uniques: uniques.cloned().collect(),
        local: Vec::new(),
        commons: Vec::new(),
        program: system.len(),
        system,
        shadowed: Vec::new(),
        apart: Vec::new(),
        order: match (domain.0.program, flags.has(OpenFlags::DEEPBIND)) {
            (false, false) => Order::Domain,
            (false, true) => Order::LibraryInDomain,
            (true, false) => Order::Program,
            (true, true) => Order::Library,
        },
    }
}

/// Adds the scope `other` of an earlier load, after everything of this load. `commons` is the commons' domain
/// if the earlier load was there.
fn inherit(scope: &mut Scope, other: &Scope, commons: Option<&Arc<DomainInner>>) {
    match commons {
        None => other.local.iter().for_each(|image| scope.add_local(image)),
        // The local images of that scope are loaded in the commons, not in this domain.
        Some(commons) => {
            let there = &commons.state.lock().entries;
            let replicas = other.local.iter().map(|image| there.replica(image.id).cloned());
            replicas.for_each(|replica| scope.add_commons(replica));
        }
    }
    other.commons.iter().for_each(|replica| scope.add_commons(Some(replica.clone())));
    other.system.iter().for_each(|object| scope.add_system(object.clone()));
}

/// The scope that a replica of an earlier load was bound in.
fn first_scope(domain: &DomainInner, replica: &Replica) -> Option<Arc<Scope>> {
    domain.state.lock().entries.of(replica)?.scopes.first().cloned()
}

/// Adds a replica of an earlier load, after the objects that it is a filter of, and returns its needs.
fn add_replica(domain: &Domain, scope: &mut Scope, replica: &Replica) -> Vec<Provider> {
    let state = domain.0.state.lock();
    let loaded = |image: &ImageId| state.entries.replica(*image).cloned();
    let needs = state.entries.of(replica).map(|entry| entry.needs.clone()).unwrap_or_default();
    for need in needs.iter() {
        if let Need::Filtee(image) = need
            && let Some(filtee) = loaded(image)
        {
            scope.add_local(&filtee.image);
        }
    }
    scope.add_local(&replica.image);
    needs
        .iter()
        .filter_map(|need| match need {
            Need::Replica(image) | Need::Filtee(image) => loaded(image).map(Provider::Replica),
            Need::System(object) => Some(Provider::System(object.clone())),
            // The scope that the replica was bound in holds them.
            Need::Commons(_) => None,
        })
        .collect()
}

impl Scope {
    /// Adds a system object and returns its needs, unless the scope already holds it.
    fn add_object(&mut self, object: Arc<SystemObject>) -> Vec<Provider> {
        if self.system.iter().any(|known| known.id == object.id) {
            return Vec::new();
        }
        let needed = object.needed.iter().filter_map(|name| SYSTEM.by_name(name));
        let needed = needed.map(Provider::System).collect();
        self.add_system(object);
        needed
    }
}

fn provider_of(edge: &Edge) -> Option<Provider> {
    match edge {
        Edge::Node(index) => Some(Provider::Node(*index)),
        Edge::Replica(replica) => Some(Provider::Replica(replica.clone())),
        Edge::Commons(replica) => Some(Provider::Commons(replica.clone())),
        Edge::System(object) => Some(Provider::System(object.clone())),
        // The loader has opened the system names of nodes that it loads itself: they are objects now.
        Edge::SystemName(_) | Edge::Missing { .. } => None,
    }
}

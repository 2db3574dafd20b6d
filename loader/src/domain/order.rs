//! The orders in which replicas begin and end: those of glibc's `_dl_sort_maps` (elf/dl-sort-maps.c, the
//! default algorithm since 2.35).

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::replica_entry::{Entries, ReplicaEntry};
use crate::domain::uses::{Opened, Uses};
use crate::image::ImageId;
use crate::replica::Replica;

/// The numbers below `count`, each after the numbers that it leads to. A cycle is broken where it is
/// entered. Between numbers that do not lead to each other, the higher one comes first.
pub(crate) fn dependencies_first(
    count: usize,
    leads_to: impl Fn(usize) -> Vec<usize>,
) -> Vec<usize> {
    fn visit(
        index: usize,
        leads_to: &dyn Fn(usize) -> Vec<usize>,
        seen: &mut [bool],
        order: &mut Vec<usize>,
    ) {
        if std::mem::replace(&mut seen[index], true) {
            return;
        }
        for next in leads_to(index) {
            visit(next, leads_to, seen, order);
        }
        order.push(index);
    }
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(count);
    for index in (0..count).rev() {
        visit(index, &leads_to, &mut seen, &mut order);
    }
    order
}

/// The reason for which the first of some replicas was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// Something else needs it, like the others.
    None,
    /// Its own open loaded it.
    New,
    /// It was opened after another load had brought it.
    AlreadyLoaded,
}

/// Replicas in the order in which their constructors run, dependencies first. The opened replica, which is
/// the first of them, comes last, whatever needs it.
pub(crate) fn of_construction(
    entries: &Entries,
    replicas: &[Arc<Replica>],
    root: Root,
    opened: &Opened,
) -> Vec<Arc<Replica>> {
    let places = places(replicas.iter());
    let mut order = dependencies_first(replicas.len(), |index| match index {
        // glibc does not know yet what it needs.
        0 if root == Root::New => Vec::new(),
        _ => {
            let entry = entries.of(&replicas[index]);
            entry.map(|entry| leads_to(entry, opened, &places)).unwrap_or_default()
        }
    });
    if root != Root::None {
        order.retain(|&index| index != 0);
        order.push(0);
    }
    order.into_iter().map(|index| replicas[index].clone()).collect()
}

/// The order in which constructors are called: glibc honours DF_1_INITFIRST of one object of a load.
pub(crate) fn with_first(mut ordered: Vec<Arc<Replica>>) -> Vec<Arc<Replica>> {
    if let Some(first) = ordered.iter().rposition(|replica| replica.image.dynamic.init_first) {
        ordered[..=first].rotate_right(1);
    }
    ordered
}

/// All replicas of a domain that extends the program, in the order of their destructors. A replica ends
/// before those that it needs or is bound to; otherwise load order holds. Replicas that were opened themselves
/// know everything that they lead to (glibc's `l_initfini`).
pub(crate) fn of_destruction(entries: &Entries, uses: &Uses) -> Vec<Arc<Replica>> {
    let entries: Vec<&ReplicaEntry> = entries.iter().collect();
    let places = places(entries.iter().map(|entry| &entry.replica));
    let needed: Vec<Vec<usize>> =
        entries.iter().map(|entry| leads_to(entry, &uses.opened, &places)).collect();
    let needed_or_bound = |index: usize| {
        let bound = &entries[index].ends_before;
        let mut all = needed[index].clone();
        all.extend(bound.iter().rev().filter_map(|image| places.get(image).copied()));
        all
    };
    let replica = |index: usize| entries[index].replica.clone();
    let mut first: Vec<usize> = dependencies_first(entries.len(), needed_or_bound);
    first.reverse();
    if entries.iter().all(|entry| entry.ends_before.is_empty()) {
        return first.into_iter().map(replica).collect();
    }
    // Once more for needs alone: if needs and bindings contradict each other, needs count.
    let place_in_first: HashMap<usize, usize> =
        first.iter().enumerate().map(|(place, &index)| (index, place)).collect();
    let mut order = dependencies_first(first.len(), |place| {
        needed[first[place]].iter().map(|index| place_in_first[index]).collect()
    });
    order.reverse();
    order.into_iter().map(|place| replica(first[place])).collect()
}

/// The reverse order of construction, from the place of each replica in that order. A replica ends before
/// those that it needs, and before the one that opened it.
pub(crate) fn last_first(mut replicas: Vec<(Option<u64>, Arc<Replica>)>) -> Vec<Arc<Replica>> {
    replicas.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    replicas.into_iter().map(|(_, replica)| replica).collect()
}

fn places<'a>(replicas: impl Iterator<Item = &'a Arc<Replica>>) -> HashMap<ImageId, usize> {
    replicas.enumerate().map(|(place, replica)| (replica.image.id, place)).collect()
}

/// The positions in the list of the replicas that `entry` leads to: its needs, or everything that it leads to.
fn leads_to(entry: &ReplicaEntry, opened: &Opened, places: &HashMap<ImageId, usize>) -> Vec<usize> {
    let place = |image: ImageId| places.get(&image).copied();
    match opened.get(&entry.replica.image.id) {
        Some(all) => all.iter().copied().filter_map(place).collect(),
        None => entry.needed().filter_map(place).collect(),
    }
}

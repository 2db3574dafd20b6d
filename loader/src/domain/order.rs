//! The orders in which replicas begin and end: those of glibc's `_dl_sort_maps` (elf/dl-sort-maps.c, the
//! default algorithm since 2.35).

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::needs::Need;
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
    /// It was opened, and that loaded it.
    New,
    /// It was opened, and others had brought it before.
    Known,
}

/// Replicas in the order in which their constructors run, dependencies first. The opened replica, which is
/// the first of them, comes last, whatever needs it.
pub(crate) fn of_construction(
    replicas: &[Arc<Replica>],
    root: Root,
    opened: &Opened,
) -> Vec<Arc<Replica>> {
    let places = places(replicas);
    let mut order = dependencies_first(replicas.len(), |index| match index {
        // glibc does not know yet what it needs.
        0 if root == Root::New => Vec::new(),
        _ => leads_to(&replicas[index], opened, &places),
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

/// Sorts all replicas of a domain that continues the program from load order to the order of their
/// destructors. A replica ends before those that it needs or is bound to; otherwise load order holds.
/// Replicas that were opened themselves know everything that they lead to (glibc's `l_initfini`).
pub(crate) fn of_destruction(replicas: &[Arc<Replica>], uses: &Uses) -> Vec<Arc<Replica>> {
    let places = places(replicas);
    let needed: Vec<Vec<usize>> =
        replicas.iter().map(|replica| leads_to(replica, &uses.opened, &places)).collect();
    let needed_or_bound = |index: usize| {
        let bound = replicas[index].ends_before.lock();
        let mut all = needed[index].clone();
        all.extend(bound.iter().rev().filter_map(|image| places.get(image).copied()));
        all
    };
    let mut first: Vec<usize> = dependencies_first(replicas.len(), needed_or_bound);
    first.reverse();
    if replicas.iter().all(|replica| replica.ends_before.lock().is_empty()) {
        return first.into_iter().map(|index| replicas[index].clone()).collect();
    }
    // Once more for what is needed: where the two contradict each other, that counts.
    let place_in_first: HashMap<usize, usize> =
        first.iter().enumerate().map(|(place, &index)| (index, place)).collect();
    let mut order = dependencies_first(first.len(), |place| {
        needed[first[place]].iter().map(|index| place_in_first[index]).collect()
    });
    order.reverse();
    order.into_iter().map(|place| replicas[first[place]].clone()).collect()
}

fn places(replicas: &[Arc<Replica>]) -> HashMap<ImageId, usize> {
    replicas.iter().enumerate().map(|(place, replica)| (replica.image.id, place)).collect()
}

/// Where those of the list that `replica` leads to are in it: what it needs, or all that it leads to.
fn leads_to(replica: &Replica, opened: &Opened, places: &HashMap<ImageId, usize>) -> Vec<usize> {
    if let Some(all) = opened.get(&replica.image.id) {
        return all.iter().filter_map(|image| places.get(image).copied()).collect();
    }
    let needs = replica.needs.get().into_iter().flatten();
    needs
        .filter_map(|need| match need {
            Need::Replica(image) | Need::Filtee(image) => places.get(image).copied(),
            Need::Commons(_) | Need::System(_) => None,
        })
        .collect()
}

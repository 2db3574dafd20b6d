//! In which order replicas begin and end: those of glibc's `_dl_sort_maps` (elf/dl-sort-maps.c, the
//! algorithm that is the default since 2.35).

use std::collections::HashMap;
use std::sync::Arc;

use crate::image::ImageId;
use crate::lifetime::Uses;
use crate::needs::Need;
use crate::replica::Replica;

/// The numbers below `count`, each after those that it leads to; a cycle is broken where it is
/// entered, and of those that do not lead to each other the last one comes first.
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

/// New replicas in the order in which their constructors run. `root`: the first of them is what was
/// opened, and comes last, whoever needs it.
pub(crate) fn of_construction(replicas: &[Arc<Replica>], root: bool) -> Vec<Arc<Replica>> {
    let places = places(replicas);
    let mut order = dependencies_first(replicas.len(), |index| needs(&replicas[index], &places));
    if root {
        order.retain(|&index| index != 0);
        order.push(0);
    }
    let mut ordered: Vec<_> = order.into_iter().map(|index| replicas[index].clone()).collect();
    // glibc honours DF_1_INITFIRST of one object of a load.
    if let Some(first) = ordered.iter().rposition(|replica| replica.image.dynamic.init_first) {
        ordered[..=first].rotate_right(1);
    }
    ordered
}

/// All replicas of a domain that continues the program, given in load order, in that in which their
/// destructors run: whoever needs something, or is bound to it, before it, and else as loaded. Some
/// were opened themselves: they know all that they lead to (glibc's `l_initfini`). What
/// stays for good is nobody's dependency by a binding (elf/dl-lookup.c, add_dependency).
pub(crate) fn of_destruction(replicas: &[Arc<Replica>], uses: &Uses) -> Vec<Arc<Replica>> {
    let places = places(replicas);
    let needed: Vec<Vec<usize>> = (0..replicas.len())
        .map(|index| {
            if uses.opened.contains(&replicas[index].image.id) {
                all_needs(replicas, index, &places)
            } else {
                needs(&replicas[index], &places)
            }
        })
        .collect();
    let leads_to = |index: usize| {
        let bound = replicas[index].bound.lock();
        let counted = bound.iter().filter(|&image| !uses.keeps(*image));
        let mut bound: Vec<usize> = counted.filter_map(|i| places.get(i).copied()).collect();
        bound.sort_unstable_by(|a, b| b.cmp(a));
        let mut all = needed[index].clone();
        all.extend(bound);
        all
    };
    let mut first: Vec<usize> = dependencies_first(replicas.len(), leads_to);
    first.reverse();
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

/// All that replica `root` leads to: those that need others first.
fn all_needs(
    replicas: &[Arc<Replica>],
    root: usize,
    places: &HashMap<ImageId, usize>,
) -> Vec<usize> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&index) = found.get(next) {
        for need in needs(&replicas[index], places) {
            if !found.contains(&need) {
                found.push(need);
            }
        }
        next += 1;
    }
    let mut order = dependencies_first(found.len(), |at| {
        let needs = needs(&replicas[found[at]], places).into_iter();
        needs.filter_map(|need| found.iter().position(|&known| known == need)).collect()
    });
    order.reverse();
    order.into_iter().map(|at| found[at]).filter(|&index| index != root).collect()
}

/// Where those of the list that `replica` needs are in it.
fn needs(replica: &Replica, places: &HashMap<ImageId, usize>) -> Vec<usize> {
    let needs = replica.needs.get().into_iter().flatten();
    needs
        .filter_map(|need| match need {
            Need::Replica(image) | Need::Filtee(image) => places.get(image).copied(),
            Need::Commons(_) | Need::System(_) => None,
        })
        .collect()
}

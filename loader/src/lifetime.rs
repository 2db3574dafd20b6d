//! Lifetimes in a domain that continues the program: which replicas are still needed.
//!
//! A replica is needed while a handle to it is open or something keeps it for good (DF_1_NODELETE,
//! RTLD_NODELETE, a definition that is unique in the program), and while another needed replica
//! names it in DT_NEEDED or has a reference bound to it. Counting alone would keep cycles, so the
//! needed are found anew at each close, as glibc's `_dl_close_worker` does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::domain::{Domain, State};
use crate::image::ImageId;
use crate::needs::Need;
use crate::order::Opened;
use crate::replica::Replica;
use crate::{needs, order, publish, run};

/// What keeps replicas of a domain loaded.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    handles: HashMap<ImageId, usize>,
    kept: HashSet<ImageId>,
    /// Those that were opened since they were loaded, whether or not they still are.
    pub opened: Opened,
    /// Whether a close is unloading now, and is to look once more.
    closing: bool,
    again: bool,
}

impl Uses {
    /// One more handle.
    pub(crate) fn open(&mut self, image: ImageId) {
        *self.handles.entry(image).or_default() += 1;
    }

    /// The image's replica stays for good. False if that was known.
    pub(crate) fn keep(&mut self, image: ImageId) -> bool {
        self.kept.insert(image)
    }

    /// Takes back what an open that failed has noted.
    pub(crate) fn withdraw(&mut self, image: ImageId, kept: bool) {
        self.close(image);
        if kept {
            self.kept.remove(&image);
        }
    }

    /// Whether the image's replica stays for good.
    pub(crate) fn keeps(&self, image: ImageId) -> bool {
        self.kept.contains(&image)
    }

    /// One handle less; false if there was none.
    fn close(&mut self, image: ImageId) -> bool {
        match self.handles.get_mut(&image) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => drop(self.handles.remove(&image)),
            None => return false,
        }
        true
    }

    fn roots(&self) -> impl Iterator<Item = ImageId> + '_ {
        self.handles.keys().chain(&self.kept).copied()
    }
}

/// Closes one handle of `replica` and unloads what nothing needs any more. False if it has no open
/// handle.
pub(crate) fn close(domain: &Domain, replica: &Replica) -> bool {
    let _serial = domain.0.serial.lock();
    {
        let uses = &mut domain.0.state.lock().uses;
        if !uses.close(replica.image.id) {
            return false;
        }
        // A destructor may close what it opened. Then the close that runs it goes on with that, when
        // its own are gone (glibc, elf/dl-close.c, dl_close_state).
        if std::mem::replace(&mut uses.closing, true) {
            uses.again = true;
            return true;
        }
    }
    loop {
        let unneeded = take_unneeded(&mut domain.0.state.lock());
        for replica in &unneeded {
            run::destroy(replica);
        }
        if !unneeded.is_empty() {
            publish::withdraw(&unneeded);
        }
        let uses = &mut domain.0.state.lock().uses;
        if !std::mem::take(&mut uses.again) {
            uses.closing = false;
            break;
        }
    }
    true
}

/// Takes the replicas out of the domain that no root leads to, in the order in which they end.
fn take_unneeded(state: &mut State) -> Vec<Arc<Replica>> {
    let mut needed: HashSet<ImageId> = HashSet::new();
    let pinned = state.replicas.iter().filter(|replica| replica.registered.is_pinned());
    let mut waiting: Vec<ImageId> =
        state.uses.roots().chain(pinned.map(|replica| replica.image.id)).collect();
    while let Some(image) = waiting.pop() {
        if !needed.insert(image) {
            continue;
        }
        let Some(replica) = state.by_image.get(&image) else { continue };
        waiting.extend(replica.needs.get().into_iter().flatten().filter_map(|need| match need {
            Need::Replica(image) | Need::Filtee(image) => Some(*image),
            Need::Commons(_) | Need::System(_) => None,
        }));
        waiting.extend(replica.bound.lock().iter().copied());
    }
    let is_needed = |replica: &Arc<Replica>| needed.contains(&replica.image.id);
    let unneeded: Vec<_> = order::of_destruction(&state.replicas, &state.uses)
        .into_iter()
        .filter(|r| !is_needed(r))
        .collect();
    state.replicas.retain(is_needed);
    state.globals.retain(is_needed);
    state.by_image.retain(|image, _| needed.contains(image));
    state.uses.opened.retain(|image, _| needed.contains(image));
    if !unneeded.is_empty() {
        for replica in state.replicas.clone() {
            needs::leave_scopes(state, &replica);
        }
    }
    unneeded
}

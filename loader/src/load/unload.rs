//! Lifetimes in a domain that extends the program: which replicas are still needed.
//!
//! A replica is needed while a handle to it is open, while something keeps it for good (DF_1_NODELETE,
//! RTLD_NODELETE, a definition that is unique in the program), and while another needed replica names it
//! in DT_NEEDED or has a reference bound to it. Counting would keep cycles, so each close computes the
//! needed replicas anew, as glibc's `_dl_close_worker` does.

use std::collections::HashSet;
use std::sync::Arc;

use crate::domain::{self, Domain, DomainState, needs, order};
use crate::image::ImageId;
use crate::load::{run, turn};
use crate::replica::Replica;
use crate::sys::children;
use crate::visible::publish;

impl Domain {
    /// Runs the destructors of the domain's replicas, last constructed first, and unmaps them. A domain that
    /// extends the program runs destructors in glibc's order.
    ///
    /// # Safety
    /// Nothing may run in the replicas or refer to them any more: no thread, no callback that a system
    /// object holds, no object whose type they define. This calls the exit handlers that their code
    /// registered, and forgets its fork handlers. A replica whose thread-local objects some thread must still
    /// destroy stays mapped until then.
    pub unsafe fn close(self) {
        let _turn = self.0.serial.lock();
        let replicas = end_all(&self);
        self.0.exits.end();
        self.0.record_locks.end();
        children::leave(self.id());
        for replica in replicas.iter().filter(|replica| replica.registered.is_pinned()) {
            replica.registered.keep(self.0.clone());
        }
        let gone = self.0.state.lock().entries.gone(&replicas);
        publish::withdraw(&unpinned(replicas));
        drop(gone);
        self.leave_inheritance(Vec::new());
        domain::forget(self.id());
    }
}

/// Runs the destructors of all replicas, last constructed first, and returns the replicas, which are leaving.
pub(super) fn end_all(domain: &Domain) -> Vec<Arc<Replica>> {
    let replicas = {
        let mut state = domain.0.state.lock();
        state.globals.clear();
        let replicas = if domain.0.program {
            order::of_destruction(&state.entries, &state.uses)
        } else {
            let entries = state.entries.iter();
            let placed = entries.map(|entry| (entry.place(), entry.replica.clone()));
            order::last_first(placed.collect())
        };
        state.entries.leave(|_| true);
        replicas
    };
    for replica in &replicas {
        run::destroy(domain, replica);
    }
    replicas
}

/// Returns all replicas, which are leaving. None of their code runs: handlers of forks and of quick_exit are forgotten.
pub(super) fn forget_all(domain: &Domain) -> Vec<Arc<Replica>> {
    let replicas: Vec<_> = {
        let mut state = domain.0.state.lock();
        state.globals.clear();
        let replicas = state.entries.replicas().cloned().collect();
        state.entries.leave(|_| true);
        replicas
    };
    for replica in &replicas {
        replica.registered.finalize();
    }
    replicas
}

/// Those of closed `replicas` that no thread pins. The others stay published, and so mapped, until the
/// last destructor of their thread-local objects has run.
fn unpinned(mut replicas: Vec<Arc<Replica>>) -> Vec<Arc<Replica>> {
    replicas.retain(|replica| {
        let pinned = replica.registered.close();
        if pinned {
            tracing::debug!(
                object = %replica.image.path.display(),
                "stays mapped until the destructors of its thread-local objects have run"
            );
        }
        !pinned
    });
    replicas
}

/// Closes one handle of `replica` and unloads replicas that nothing needs any more. False if it has no
/// open handle.
pub(crate) fn close(domain: &Domain, replica: &Replica) -> bool {
    let _turn = turn::take(domain);
    {
        let uses = &mut domain.0.state.lock().uses;
        if !uses.close(replica.image.id) {
            return false;
        }
        // A destructor may close a library that its code opened. The close that runs the destructor then
        // unloads that library too, after its own replicas are gone (glibc, elf/dl-close.c, dl_close_state).
        if std::mem::replace(&mut uses.closing, true) {
            uses.again = true;
            return true;
        }
    }
    loop {
        let unneeded = take_unneeded(&mut domain.0.state.lock());
        for replica in &unneeded {
            run::destroy(domain, replica);
        }
        if !unneeded.is_empty() {
            publish::withdraw(&unneeded);
            let gone = domain.0.state.lock().entries.gone(&unneeded);
            drop(gone);
        }
        let uses = &mut domain.0.state.lock().uses;
        if !std::mem::take(&mut uses.again) {
            uses.closing = false;
            break;
        }
    }
    true
}

/// Removes the replicas from the domain that no root leads to, in the order in which they end.
fn take_unneeded(state: &mut DomainState) -> Vec<Arc<Replica>> {
    let mut needed: HashSet<ImageId> = HashSet::new();
    let pinned = state.entries.replicas().filter(|replica| replica.registered.is_pinned());
    let mut waiting: Vec<ImageId> =
        state.uses.roots().chain(pinned.map(|replica| replica.image.id)).collect();
    while let Some(image) = waiting.pop() {
        if !needed.insert(image) {
            continue;
        }
        let Some(entry) = state.entries.get(image) else { continue };
        waiting.extend(entry.needed());
        waiting.extend(&entry.bound);
    }
    let is_needed = |replica: &Arc<Replica>| needed.contains(&replica.image.id);
    let mut unneeded = order::of_destruction(&state.entries, &state.uses);
    unneeded.retain(|replica| !is_needed(replica));
    if !unneeded.is_empty() {
        state.entries.leave(|entry| !is_needed(&entry.replica));
        state.globals.retain(is_needed);
        state.uses.opened.retain(|image, _| needed.contains(image));
        needs::leave_scopes(state);
    }
    unneeded
}

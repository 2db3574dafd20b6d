//! One load or unload at a time in a domain, and what a fork has cut off.

use crate::domain::Domain;
use crate::domain::order::Root;
use crate::load;
use crate::sys::lock::Turn;

/// Waits until no other thread loads or unloads in `domain`. The calling thread may do so already.
///
/// In the child of a fork that came while another thread did, the load or unload goes no further. What
/// locks guard is whole wherever that was. Who comes next does the rest of a load: runs the constructors
/// that have not begun. One that had begun is not repeated, as under glibc.
pub(crate) fn take(domain: &Domain) -> Turn<'_> {
    let turn = domain.0.serial.lock();
    if turn.is_abandoned {
        finish(domain);
    }
    turn
}

fn finish(domain: &Domain) {
    let waiting: Vec<_> = {
        let mut state = domain.0.state.lock();
        state.uses.stop_closing();
        let waiting = state.entries.iter().filter(|entry| !entry.has_begun());
        waiting.map(|entry| entry.replica.clone()).collect()
    };
    if waiting.is_empty() {
        return;
    }
    if domain.0.commons.is_none() {
        waiting.iter().for_each(|replica| load::make_global(domain, &replica.image));
    }
    load::construct(domain, &waiting, Root::None);
}

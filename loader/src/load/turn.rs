//! One load or unload at a time in a domain, and the rest of a load that a fork interrupted.

use crate::domain::Domain;
use crate::domain::order::Root;
use crate::load;
use crate::sys::lock::Turn;

/// Waits until no other thread loads or unloads in `domain`. The calling thread may do so already.
///
/// A process may fork while another thread loads or unloads. In the child that load or unload does not
/// continue. The data that locks guard is whole even so. The next thread that comes does the rest of the
/// load: it runs the constructors that have not begun. It does not repeat one that had begun, as under glibc.
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
    if let Err(error) = load::construct(domain, &waiting, Root::None) {
        tracing::warn!(domain = domain.name(), %error, "a load that a fork has interrupted failed");
    }
}

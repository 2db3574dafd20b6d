//! How many do something now, for those who wait until nobody does.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// A number of [`Counted`].
#[derive(Clone, Default)]
pub(crate) struct WaitGroup(Arc<(Mutex<usize>, Condvar)>);

/// It counts as long as it lives.
pub(crate) struct Counted(WaitGroup);

impl WaitGroup {
    pub(crate) fn count(&self) -> Counted {
        *self.0.0.lock() += 1;
        Counted(self.clone())
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self.0.0.lock() == 0
    }

    /// Waits until the count is zero.
    pub(crate) fn wait(&self) {
        self.0.1.wait_while(&mut self.0.0.lock(), |count| *count > 0);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.0.0.lock() -= 1;
        self.0.0.1.notify_all();
    }
}

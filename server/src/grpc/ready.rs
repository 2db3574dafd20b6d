//! Whether a server is ready.

use super::life::Life;
use crate::service::Service;

/// Tells whether a server is ready.
#[derive(Clone)]
pub(super) struct Readiness {
    pub(super) service: Service,
    pub(super) life: Life,
}

impl Readiness {
    pub(super) fn is_ready(&self) -> bool {
        self.life.serves() && self.service.is_ready()
    }
}

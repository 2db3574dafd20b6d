//! Whether a server is ready.

use super::life::Life;
use hydrozoa_serve::{Server, State};

/// Tells whether a server is ready.
#[derive(Clone)]
pub(super) struct Readiness {
    pub(super) server: Server,
    pub(super) life: Life,
    /// Whether all models that were loaded must serve.
    pub(super) is_strict: bool,
}

impl Readiness {
    pub(super) async fn is_ready(&self) -> bool {
        if !self.life.serves() || !self.is_strict {
            return self.life.serves();
        }
        let server = self.server.clone();
        // The index reads folders.
        let index = tokio::task::spawn_blocking(move || server.index()).await;
        index.is_ok_and(|models| {
            let waits = |state: &State| matches!(state, State::Loading | State::Failed(_));
            !models.iter().any(|model| model.version.is_none() && waits(&model.state))
        })
    }
}

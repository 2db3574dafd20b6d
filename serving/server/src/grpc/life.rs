//! Where a server stands between its start and its end.

use crate::service::Service;
use tokio::sync::watch;
use tonic::Status;

/// How a server treats calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It serves.
    Serving,
    /// It takes no further inferences, and ends those that it has.
    Draining,
    /// It ends the remaining calls.
    Ended,
}

/// Tells where a server stands.
#[derive(Clone)]
pub(super) struct Life(watch::Receiver<Stage>);

impl Life {
    /// A server that serves, until the sender says otherwise.
    pub(super) fn new() -> (watch::Sender<Stage>, Self) {
        let (sender, receiver) = watch::channel(Stage::Serving);
        (sender, Self(receiver))
    }

    pub(super) fn serves(&self) -> bool {
        *self.0.borrow() == Stage::Serving
    }

    /// Waits for a stage. If the sender has gone, it counts as reached.
    pub(super) async fn reaches(&self, stage: Stage) {
        // An error is the end of the sender.
        drop(self.0.clone().wait_for(|now| *now >= stage).await);
    }

    /// The answer to a call that comes too late, in Triton's words.
    pub(super) fn refusal() -> Status {
        Status::unavailable("GRPC server is shutting down and has stopped accepting new requests.")
    }

    /// The answer to a call that has not ended in time.
    pub(super) fn cut() -> Status {
        Status::unavailable("GRPC server has shut down before the request has ended.")
    }
}

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

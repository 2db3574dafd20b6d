//! Responses that a client has not read.

use super::{Answer, ModelStreamInferResponse};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::{Notify, mpsc};
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

/// Counts them from when the model has made them.
#[derive(Default)]
pub(super) struct Unread {
    count: AtomicUsize,
    fallen: Notify,
}

/// One of them.
pub(super) struct Counted(Arc<Unread>);

impl Unread {
    pub(super) fn count(self: &Arc<Self>) -> Counted {
        self.count.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until there may be fewer.
    pub(super) async fn falls(&self) {
        self.fallen.notified().await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        // The notification is kept for a thread that does not wait yet.
        self.0.fallen.notify_one();
    }
}

/// The responses that the client reads.
pub(super) struct Items(pub(super) mpsc::UnboundedReceiver<(Answer, Counted)>);

impl Stream for Items {
    type Item = Result<ModelStreamInferResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|item| item.map(|(answer, _)| answer))
    }
}

//! The messages of a channel, as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::Stream;

struct Received<T>(mpsc::Receiver<Result<T, Status>>);

impl<T> Stream for Received<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// The stream of what a channel receives. It ends when the senders are gone.
pub(super) fn stream<T: Send + 'static>(
    receiver: mpsc::Receiver<Result<T, Status>>,
) -> BoxStream<T> {
    Box::pin(Received(receiver))
}

//! The connections of gRPC, up to their limit.

use crate::guard::{
    ConnectionSlot, Connections, Listens, Met, OpenConnection, StreamWatch, Watched,
};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::Connected;

/// The connections as they come.
pub(super) struct Incoming {
    door: Arc<Door>,
    next: Pin<Box<dyn Future<Output = Connection> + Send>>,
}

struct Door {
    listener: TcpListener,
    places: Arc<Connections>,
    listens: Arc<Listens>,
}

/// A connection. When its place is another one's, it fails.
type Connection = Watched<TcpStream, Closing>;

pub(super) struct Closing {
    info: Info,
    end: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    _slot: ConnectionSlot,
}

/// The connection of a request.
#[derive(Clone)]
pub(super) struct Info {
    pub(super) met: Met,
    pub(super) connected: Arc<OpenConnection>,
}

impl Incoming {
    pub(super) fn new(listener: TcpListener, most: usize, of_client: usize) -> Self {
        let listens = Arc::new(Listens::at(listener.local_addr().ok()));
        let door = Arc::new(Door { listener, places: Connections::new(most, of_client), listens });
        let next = Box::pin(Arc::clone(&door).next());
        Self { door, next }
    }
}

impl Door {
    async fn next(self: Arc<Self>) -> Connection {
        let mut is_refused = false;
        loop {
            self.places.room().await;
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let accepted = stream.set_nodelay(true).and_then(|()| stream.local_addr());
                    // A connection that has gone has no address.
                    let Ok(local) = accepted else { continue };
                    let met = self.places.meet(Some((local, peer)), &self.listens);
                    let Some((slot, met)) = met else { continue };
                    let info = Info { met, connected: Arc::clone(&slot.connected) };
                    let end = Box::pin(slot.connected.end());
                    return Watched { stream, watch: Closing { info, end, _slot: slot } };
                }
                Err(error) => self.places.refused(&error, &mut is_refused).await,
            }
        }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let connection = ready!(self.next.as_mut().poll(context));
        self.next = Box::pin(Arc::clone(&self.door).next());
        Poll::Ready(Some(Ok(connection)))
    }
}

impl Connected for Connection {
    type ConnectInfo = Info;

    fn connect_info(&self) -> Info {
        self.watch.info.clone()
    }
}

impl StreamWatch for Closing {
    fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.as_mut().poll(context).is_ready() {
            // It must not be asked again.
            self.end = Box::pin(std::future::ready(()));
            let words = "the connection waits for its client, and is closed for another one";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, words)));
        }
        Pin::new(stream).poll_read(context, buffer)
    }
}

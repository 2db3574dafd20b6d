//! The connections of gRPC, of which there are as many as there may be.

use crate::guard::{Connections, Entry, Listens, Met, Place, client_of};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::Connected;

/// How long no connection is taken after the system has refused one, e.g. for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

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
pub(super) struct Connection {
    stream: TcpStream,
    info: Info,
    end: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    _place: Place,
}

/// What requests know of their connection.
#[derive(Clone)]
pub(super) struct Info {
    pub(super) met: Met,
    pub(super) entry: Arc<Entry>,
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
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let accepted = stream.set_nodelay(true).and_then(|()| stream.local_addr());
                    // One that has gone has no address.
                    let Ok(local) = accepted else { continue };
                    let client = Some(client_of(peer.ip()));
                    // The places that are kept for health are taken, too. It is closed.
                    let Some(place) = self.places.enter(client) else { continue };
                    let met = Met {
                        local: Some(local),
                        peer: Some(peer),
                        client,
                        listens: Arc::clone(&self.listens),
                        is_reserved: place.is_reserved,
                    };
                    let info = Info { met, entry: Arc::clone(&place.entry) };
                    let end = Box::pin(place.entry.end());
                    return Connection { stream, info, end, _place: place };
                }
                Err(error) => {
                    tracing::warn!("gRPC: the system gives no connection: {error}");
                    // As for HTTP: the first refusal says nothing of a client.
                    if std::mem::replace(&mut is_refused, true) {
                        self.places.make_room();
                    }
                    tokio::time::sleep(PAUSE).await;
                }
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
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.as_mut().poll(context).is_ready() {
            // It must not be asked again.
            self.end = Box::pin(std::future::ready(()));
            let words = "the connection waits for its client, and is closed for another one";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, words)));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

//! Takes connections and serves them, until the server ends.

use super::exchange::{Respond, Served};
use super::heads::Heads;
use super::listen::{Accepted, Listener, Stream};
use super::threads::Threads;
use super::timer::LazyTimer;
use super::version::{self, Rewound};
use super::write_timeout::WriteTimeout;
use crate::access::Tls;
use crate::guard::{ConnectionSlot, Connections, Met, Watched};
use crate::http::Limits;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a client may take for the rest of a head when the server ends.
const MOMENT: Duration = Duration::from_secs(1);

/// The smallest buffer that hyper uses.
const LEAST_BUFFER: usize = 8 << 10;

/// Requests at a time on one connection of HTTP/2.
const STREAMS: u32 = 256;

/// The settings that a connection is served with.
struct Terms<S> {
    service: S,
    limits: Limits,
    tls: Option<Tls>,
    is_ending: watch::Receiver<bool>,
}

/// Serves `service`, such as a router, on a listener and on `threads` until `end` is ready. Then it takes no further connections, closes idle ones,
/// and gives those with a request under way the time that `end` returned. Requests that take longer are cancelled.
///
/// Returns how many connections had a request under way at the end.
pub async fn serve<S: Respond>(
    listener: Listener,
    service: S,
    limits: &Limits,
    threads: &Threads,
    end: impl Future<Output = Duration>,
) -> usize {
    let (ends, is_ending) = watch::channel(false);
    let of_client = limits.max_connections_per_client.unwrap_or(limits.max_connections / 4);
    let places = Connections::new(limits.max_connections, of_client);
    let listens = Arc::new(listener.listens());
    let (limits, tls) = (limits.clone(), listener.tls().cloned());
    let terms = Arc::new(Terms { service, limits, tls, is_ending });
    let mut connections = JoinSet::new();
    let mut end = std::pin::pin!(end);
    let mut is_refused = false;
    let patience = loop {
        let accepted = tokio::select! {
            patience = &mut end => break patience,
            Some(_) = connections.join_next() => continue,
            accepted = async { places.room().await; listener.accept().await } => accepted,
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                places.refused(&error, &mut is_refused).await;
                continue;
            }
        };
        is_refused = false;
        // A connection without an address has gone.
        let Ok(addresses) = accepted.addresses() else { continue };
        let Some((slot, met)) = places.meet(addresses, &listens) else { continue };
        let thread = if slot.is_reserved { threads.reserved() } else { threads.place() };
        let (terms, runtime) = (Arc::clone(&terms), thread.runtime.clone());
        connections.spawn_on(
            async move {
                take(accepted, slot, met, &terms).await;
                drop(thread);
            },
            &runtime,
        );
    };
    drop(listener);
    // The receivers are the connections' tasks, and they may all have ended.
    let _ = ends.send(true);
    let deadline = Instant::now() + patience;
    while let Ok(Some(_)) = timeout_at(deadline, connections.join_next()).await {}
    let late = connections.len();
    connections.shutdown().await;
    late
}

/// Whether the client has gone before its connection was taken.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// Serves a connection until it ends, or until its place is another one's.
async fn take<S: Respond>(accepted: Accepted, slot: ConnectionSlot, met: Met, terms: &Terms<S>) {
    let stream = match accepted.on_this_runtime() {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!("a connection cannot be served: {error}"),
    };
    let served = async {
        match stream {
            Stream::Tcp(stream) => secured(stream, &slot, met, terms).await,
            Stream::Unix(stream) => secured(stream, &slot, met, terms).await,
        }
    };
    tokio::select! {
        () = served => {}
        () = slot.connected.end() => tracing::debug!("a connection that waits for its client is closed for another one"),
    }
}

/// Serves a connection, with TLS if there is a certificate.
async fn secured<S: Respond>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    slot: &ConnectionSlot,
    met: Met,
    terms: &Terms<S>,
) {
    let stream = Watched { stream, watch: WriteTimeout::new(terms.limits.write_timeout) };
    let Some(tls) = &terms.tls else { return of_any_version(stream, slot, met, terms).await };
    let mut is_ending = terms.is_ending.clone();
    // Nothing was asked for yet, so the end of the server waits for no handshake.
    let shaken = tokio::select! {
        shaken = timeout(terms.limits.header_timeout, tls.http().accept(stream)) => shaken,
        _ = is_ending.wait_for(|is_ending| *is_ending) => return,
    };
    match shaken {
        Ok(Ok(stream)) => match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => connection_2(stream, slot, met, terms).await,
            _ => connection(stream, slot, met, terms).await,
        },
        Ok(Err(error)) => tracing::debug!("a handshake of TLS has failed: {error}"),
        Err(_) => tracing::debug!("a handshake of TLS has taken too long"),
    }
}

/// Serves a connection without TLS, whose first bytes say which version its client speaks (RFC 9113, 3.3).
async fn of_any_version<S: Respond>(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    slot: &ConnectionSlot,
    met: Met,
    terms: &Terms<S>,
) {
    if !terms.limits.http2 {
        return connection(stream, slot, met, terms).await;
    }
    let mut is_ending = terms.is_ending.clone();
    let seen = tokio::select! {
        seen = timeout(terms.limits.header_timeout, version::look(&mut stream)) => seen,
        _ = is_ending.wait_for(|is_ending| *is_ending) => return,
    };
    match seen {
        Ok(Ok((true, begin))) => connection_2(Rewound::new(begin, stream), slot, met, terms).await,
        Ok(Ok((false, begin))) => connection(Rewound::new(begin, stream), slot, met, terms).await,
        // The client has sent nothing.
        Ok(Err(_)) | Err(_) => {}
    }
}

/// Serves a connection of HTTP/2.
async fn connection_2<S: Respond>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    slot: &ConnectionSlot,
    met: Met,
    terms: &Terms<S>,
) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(LazyTimer::default())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(terms.limits.max_header_size).unwrap_or(u32::MAX))
        .keep_alive_interval(terms.limits.header_timeout)
        .keep_alive_timeout(terms.limits.header_timeout);
    let service = Served::new(terms.service.clone(), met, &slot.connected, None);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut is_ending = terms.is_ending.clone();
    let ending = async move { drop(is_ending.wait_for(|is_ending| *is_ending).await) };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = ending => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection has ended: {error}");
    }
}

/// Serves a connection of HTTP/1.1.
async fn connection<S: Respond>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    slot: &ConnectionSlot,
    met: Met,
    terms: &Terms<S>,
) {
    let most = terms.limits.max_header_size.max(LEAST_BUFFER);
    let mut builder = http1::Builder::new();
    builder
        .timer(LazyTimer::default())
        .header_read_timeout(terms.limits.header_timeout)
        .max_header_size(most)
        .max_buf_size(most);
    let heads = Heads::default();
    let seen = heads.seen();
    let stream = Watched { stream, watch: heads };
    let service = Served::new(terms.service.clone(), met, &slot.connected, Some(Arc::clone(&seen)));
    let stream = TokioIo::new(stream);
    let mut connection = std::pin::pin!(builder.serve_connection(stream, service).with_upgrades());
    let mut is_ending = terms.is_ending.clone();
    let ending = async move { drop(is_ending.wait_for(|is_ending| *is_ending).await) };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = ending => {
            connection.as_mut().graceful_shutdown();
            // Half a head is not a request, and nobody knows when the rest comes.
            let is_half = seen.lock().is_within_head();
            match is_half {
                true => timeout(MOMENT, connection).await.unwrap_or(Ok(())),
                false => connection.await,
            }
        }
    };
    if let Err(error) = ended {
        // The client has gone, or sent something other than HTTP.
        tracing::debug!("a connection has ended: {error}");
    }
}

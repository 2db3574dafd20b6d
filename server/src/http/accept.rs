//! Takes connections and serves them, until the server ends.

use super::Limits;
use super::listen::{Listener, Stream};
use super::patience::Patient;
use super::threads::Threads;
use crate::tls::Tls;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long no connection is taken after the system has refused one, e.g. for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The least buffer that hyper has.
const LEAST_BUFFER: usize = 8 << 10;

/// Serves `router` on a listener and on `threads` until `end` is ready. Then it takes no further connections, closes idle ones,
/// and gives those with a request under way the time that `end` has returned. Requests that take longer are cancelled.
///
/// Returns how many connections had a request under way at the end.
pub async fn serve(
    listener: Listener,
    router: Router,
    limits: &Limits,
    threads: &Threads,
    end: impl Future<Output = Duration>,
) -> usize {
    let (ends, is_ending) = watch::channel(false);
    let permits = Arc::new(Semaphore::new(limits.max_connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    let mut end = std::pin::pin!(end);
    let patience = loop {
        let next = async {
            let permit = permits.clone().acquire_owned().await.expect("nobody closes it");
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            patience = &mut end => break patience,
            Some(_) = connections.join_next() => continue,
            next = next => next,
        };
        let place = threads.place();
        match accepted.and_then(|accepted| accepted.on(&place.runtime)) {
            Ok(stream) => {
                let (router, limits, is_ending) =
                    (router.clone(), limits.clone(), is_ending.clone());
                let tls = listener.tls().cloned();
                let runtime = place.runtime.clone();
                let served = async move {
                    match stream {
                        Stream::Tcp(stream) => {
                            secured(stream, tls, router, &limits, is_ending).await
                        }
                        Stream::Unix(stream) => {
                            secured(stream, tls, router, &limits, is_ending).await
                        }
                    }
                    drop((permit, place));
                };
                connections.spawn_on(served, &runtime);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!("the system gives no connection: {error}");
                sleep(PAUSE).await;
            }
        }
    };
    drop(listener);
    // Those who listen are the connections' tasks, and they may all have ended.
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

/// Serves a connection, with TLS if there is a certificate.
async fn secured(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tls: Option<Tls>,
    router: Router,
    limits: &Limits,
    mut is_ending: watch::Receiver<bool>,
) {
    let stream = Patient::new(stream, limits.write_timeout);
    let Some(tls) = tls else { return connection(stream, router, limits, is_ending).await };
    // Nothing was asked for yet, so the end of the server waits for no handshake.
    let shaken = tokio::select! {
        shaken = timeout(limits.header_timeout, tls.http().accept(stream)) => shaken,
        _ = is_ending.wait_for(|is_ending| *is_ending) => return,
    };
    match shaken {
        Ok(Ok(stream)) => connection(stream, router, limits, is_ending).await,
        Ok(Err(error)) => tracing::debug!("a handshake of TLS has failed: {error}"),
        Err(_) => tracing::debug!("a handshake of TLS has taken too long"),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: &Limits,
    mut is_ending: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.max_header_size.max(LEAST_BUFFER));
    let service = TowerToHyperService::new(router);
    let stream = TokioIo::new(stream);
    let mut connection = std::pin::pin!(builder.serve_connection(stream, service));
    let ending = async move { drop(is_ending.wait_for(|is_ending| *is_ending).await) };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = ending => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // The client has gone, or sent what is no HTTP.
        tracing::debug!("a connection has ended: {error}");
    }
}

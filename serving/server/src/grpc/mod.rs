//! The Open Inference Protocol over gRPC, as Triton speaks it.
//!
//! ```no_run
//! use hydrozoa_server::grpc;
//!
//! # async fn f(service: hydrozoa_server::Service) -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8001").await?;
//! let shutdown = async { drop(tokio::signal::ctrl_c().await) };
//! grpc::serve(listener, service, grpc::Options::default(), shutdown).await?;
//! # Ok(()) }
//! ```

mod admission;
mod body;
mod channel_stream;
mod codec;
mod connections;
mod contents;
mod health;
mod infer;
mod life;
mod models;
mod parameters;
mod proto;
mod request;
mod response;
mod service;
mod status;
mod stream;

use crate::access::Tls;
use crate::service::Service;
use admission::{Admission, Limited};
use connections::Incoming;
use life::{Life, Readiness, Stage};
use proto::inference::grpc_inference_service_server::GrpcInferenceServiceServer;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;

/// Limits and habits of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the largest request.
    pub max_request_size: usize,
    /// Bytes of the largest response.
    pub max_response_size: usize,
    /// Connections at a time. A further one replaces the connection that has waited longest for its client. Where none waits, a
    /// further one gets only the server's health, and is refused all else with RESOURCE_EXHAUSTED.
    pub max_connections: usize,
    /// The same for the connections from one address. `None`: a quarter of them.
    pub max_connections_per_client: Option<usize>,
    /// Bytes a second that a message must reach in each [`Options::message_patience`] once it has begun. 0 for any number.
    pub min_message_rate: usize,
    /// How long a message may arrive more slowly.
    pub message_patience: Duration,
    /// Streams of inferences at a time. Others are refused with RESOURCE_EXHAUSTED.
    pub max_streams: u32,
    /// Calls at a time on one connection. Others wait in the client.
    pub max_calls_per_connection: u32,
    /// Responses that a client of a stream may leave unread. If it leaves more, its stream ends with RESOURCE_EXHAUSTED.
    pub max_unread_responses: usize,
    /// Whether responses are compressed for clients that accept gzip.
    pub compress_responses: bool,
    /// How long a connection may be silent before the server asks whether the client is there. `None`: it never asks.
    pub keepalive_interval: Option<Duration>,
    /// How long the server waits for that answer before it closes the connection.
    pub keepalive_timeout: Duration,
    /// How old a connection may become. `None`: any age.
    pub max_connection_age: Option<Duration>,
    /// How long the server waits for calls under way when it ends.
    pub drain: Duration,
    /// The certificate for TLS. `None`: connections are not encrypted.
    pub tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_request_size: 256 << 20,
            max_response_size: i32::MAX as usize,
            max_connections: 4096,
            max_connections_per_client: None,
            min_message_rate: 1024,
            message_patience: Duration::from_secs(10),
            max_streams: 1024,
            max_calls_per_connection: 1024,
            max_unread_responses: 4096,
            compress_responses: false,
            keepalive_interval: Some(Duration::from_secs(7200)),
            keepalive_timeout: Duration::from_secs(20),
            max_connection_age: None,
            drain: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// Why a server has ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[error("serving gRPC: {0}")]
pub struct Error(#[source] Box<dyn std::error::Error + Send + Sync>);

/// How long a connection may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long open connections are waited for when nothing is under way.
const CLOSE: Duration = Duration::from_secs(2);

/// The services of a server.
fn routes(service: &Service, options: &Options, admission: &Arc<Admission>, life: &Life) -> Routes {
    let readiness = Readiness { service: service.clone(), life: life.clone() };
    let options = Arc::new(options.clone());
    let service = service::Inference {
        service: service.clone(),
        options: options.clone(),
        admission: admission.clone(),
        life: life.clone(),
        readiness: readiness.clone(),
    };
    let mut inference = GrpcInferenceServiceServer::new(service)
        .max_decoding_message_size(options.max_request_size)
        .max_encoding_message_size(options.max_response_size)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate);
    if options.compress_responses {
        inference = inference.send_compressed(CompressionEncoding::Gzip);
    }
    let checks = health::service(health::Checks { readiness, life: life.clone() });
    let inference = Limited::new(inference, admission, life, &options);
    Routes::new(inference).add_service(Limited::new(checks, admission, life, &options))
}

/// Serves until `shutdown` is ready, and then ends in order: health says so, further inferences are refused, those under way
/// get [`Options::drain`] to end, and the rest are cancelled. The models stay loaded.
///
/// # Errors
///
/// [`Error`] if the listener fails.
pub async fn serve(
    listener: TcpListener,
    service: Service,
    options: Options,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let (stage, life) = Life::new();
    let admission = Arc::new(Admission::new(&service, &options));
    let mut transport = tonic::transport::Server::builder()
        .max_concurrent_streams(options.max_calls_per_connection)
        .http2_keepalive_interval(options.keepalive_interval)
        .http2_keepalive_timeout(Some(options.keepalive_timeout))
        .http2_adaptive_window(Some(true));
    if let Some(age) = options.max_connection_age {
        transport = transport.max_connection_age(age);
    }
    if let Some(tls) = &options.tls {
        let config = tls.grpc().timeout(HANDSHAKE);
        transport = transport.tls_config(config).map_err(|error| Error(error.into()))?;
    }
    let most = options.max_connections;
    let of_client = options.max_connections_per_client.unwrap_or(most / 4);
    let incoming = Incoming::new(listener, most, of_client);
    let (close, closed) = oneshot::channel::<()>();
    let ended = transport
        .add_routes(routes(&service, &options, &admission, &life))
        .serve_with_incoming_shutdown(incoming, async { drop(closed.await) });
    tokio::pin!(ended);
    let failed = |error: tonic::transport::Error| Error(error.into());
    tokio::select! {
        outcome = &mut ended => return outcome.map_err(failed),
        () = shutdown => stage.send_replace(Stage::Draining),
    };
    tracing::info!("gRPC: the server ends; inferences under way have {:?}", options.drain);
    tokio::select! {
        outcome = &mut ended => return outcome.map_err(failed),
        drained = tokio::time::timeout(options.drain, admission.idle()) => if drained.is_err() {
            tracing::warn!("gRPC: inferences under way are cancelled after {:?}", options.drain);
        },
    }
    stage.send_replace(Stage::Ended);
    drop(close);
    match tokio::time::timeout(CLOSE, ended).await {
        Ok(outcome) => outcome.map_err(failed),
        // A client that does not close its connection cannot keep the server.
        Err(_) => Ok(()),
    }
}

//! The Open Inference Protocol v2 over HTTP, as Triton serves it.
//!
//! Endpoints, status codes and the words of errors are those of Triton's HTTP server. `docs/serving.md` lists the differences.

mod body_reader;
mod compression;
mod connection;
mod drain;
mod generate;
mod guard;
mod infer;
mod json;
mod page;
mod pieces;
mod problem;
mod regions;
mod reply;
mod repository;
mod request;
mod routes;

pub use connection::{Address, Bell, Guest, Lane, Listener, Respond, Threads, serve};
pub use guard::ambiguity;
pub use routes::{metrics_router, router};

use std::time::Duration;

/// Limits of the server. Together with [`Settings::max_requests`] they bound what clients may send.
///
/// [`Settings::max_requests`]: crate::Settings::max_requests
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request's body, also after decompression.
    pub max_input_size: usize,
    /// Bytes of a request's line and headers. At least 8 KiB. There may be 100 headers.
    pub max_header_size: usize,
    /// Connections at once. A further one replaces the connection that has waited longest for its client. Where none waits, a
    /// further one gets only the server's health, and is told to come later for all else.
    pub max_connections: usize,
    /// The same for the connections from one address. `None`: a quarter of them.
    pub max_connections_per_client: Option<usize>,
    /// How long a connection may take for the next request's headers, and thus how long it may be idle.
    pub header_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// Bytes a second that a request's body must reach in each [`Limits::body_patience`]. 0 for any number.
    pub min_body_rate: usize,
    /// How long a request's body may arrive more slowly.
    pub body_patience: Duration,
    /// How long a client may leave its response unread.
    pub write_timeout: Duration,
    /// Whether clients may speak HTTP/2, which they begin with, or agree on by TLS ([`Tls::with_http2`](crate::Tls::with_http2)).
    pub http2: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_input_size: 64 << 20,
            max_header_size: 64 << 10,
            max_connections: 4096,
            max_connections_per_client: None,
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(300),
            min_body_rate: 1024,
            body_patience: Duration::from_secs(10),
            write_timeout: Duration::from_secs(60),
            http2: false,
        }
    }
}

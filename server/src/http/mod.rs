//! The Open Inference Protocol v2 over HTTP, as Triton serves it.
//!
//! Endpoints, status codes and the words of errors are those of Triton's HTTP server. `docs/serving.md` lists what differs.

mod accept;
mod body;
mod compression;
mod drain;
mod encode;
mod exchange;
mod generate;
mod guard;
mod heads;
mod infer;
mod listen;
mod page;
mod params;
mod parse;
mod patience;
mod problem;
mod read;
mod regions;
mod reply;
mod repository;
mod request;
mod routes;
mod threads;

pub use accept::serve;
pub use listen::{Address, Listener};
pub use routes::{metrics_router, router};
pub use threads::Threads;

use std::time::Duration;

/// Limits of the server. What clients may send is bounded by them, and by [`Settings::max_requests`].
///
/// [`Settings::max_requests`]: crate::Settings::max_requests
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request's body, also after decompression.
    pub max_input_size: usize,
    /// Bytes of a request's line and headers. At least 8 KiB. There may be 100 headers.
    pub max_header_size: usize,
    /// Connections at once. For a further one, the connection is closed that has waited longest for its client. Where none waits,
    /// a further one is told the server's health, and to come later for all else.
    pub max_connections: usize,
    /// The same for the connections from one address. `None`: a quarter of them.
    pub max_connections_per_client: Option<usize>,
    /// How long a connection may take for the next request's headers, and thus how long it may be idle.
    pub header_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// Bytes a second that a request's body must have in each [`Limits::body_patience`]. 0 for any number.
    pub min_body_rate: usize,
    /// How long a request's body may come slower.
    pub body_patience: Duration,
    /// How long a client may read nothing of a response that it has asked for.
    pub write_timeout: Duration,
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
        }
    }
}

/// Bytes that are worked on where they came. Work on more would keep other requests waiting.
const LARGE: usize = 128 << 10;

/// Runs work on so many bytes, on a thread for such work if they are many.
async fn apart<T: Send + 'static>(size: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if size < LARGE { work() } else { crate::service::blocking(work).await }
}

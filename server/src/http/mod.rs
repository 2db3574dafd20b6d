//! The Open Inference Protocol v2 over HTTP, as Triton serves it.
//!
//! Endpoints, status codes and the words of errors are those of Triton's HTTP server. `docs/serving.md` lists what differs.

mod accept;
mod body;
mod compression;
mod drain;
mod encode;
mod generate;
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
    /// Bytes of a request's line and headers. At least 8 KiB.
    pub max_header_size: usize,
    /// Connections at once. Further ones wait until others end.
    pub max_connections: usize,
    /// How long a connection may take for the next request's headers, and thus how long it may be idle.
    pub header_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// How long a client may read nothing of a response that it has asked for.
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_input_size: 64 << 20,
            max_header_size: 64 << 10,
            max_connections: 4096,
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(300),
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

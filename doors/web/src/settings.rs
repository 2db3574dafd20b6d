//! The settings of a server of an application.

use crate::forwarded::Proxies;
use std::path::PathBuf;
use std::time::Duration;

/// The interface between server and application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
}

/// When an application of ASGI has a start and an end of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifespan {
    /// When it takes part in the lifespan protocol.
    #[default]
    Auto,
    /// Always: an application that does not take part is an error.
    On,
    /// Never.
    Off,
}

impl Lifespan {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lifespan::Auto => "auto",
            Lifespan::On => "on",
            Lifespan::Off => "off",
        }
    }
}

/// The event loop of applications of ASGI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loop {
    /// uvloop's where it is installed, else asyncio's.
    #[default]
    Auto,
    /// asyncio's.
    Asyncio,
    /// uvloop's.
    Uvloop,
}

impl Loop {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Loop::Auto => "auto",
            Loop::Asyncio => "asyncio",
            Loop::Uvloop => "uvloop",
        }
    }
}

/// Settings of a [`Server`](crate::Server).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// `MODULE:APP`.
    pub application: String,
    /// Whether `APP` is a function that makes the application.
    pub factory: bool,
    /// The interface; `None`: what the application looks like.
    pub interface: Option<Interface>,
    /// Interpreters.
    pub workers: usize,
    /// Requests of WSGI that a worker runs at once.
    pub threads: usize,
    /// Requests of WSGI that wait for a worker. Further ones get 503.
    pub waiting: usize,
    /// Requests of ASGI that a worker runs at once. Further ones get 503.
    pub concurrency: usize,
    /// The path below which a proxy has the application; empty for none.
    pub root_path: String,
    /// How long a request of WSGI may take, and how long an application of ASGI may keep its event loop from other requests.
    pub timeout: Option<Duration>,
    /// How long requests may still take when a worker, or the server, ends.
    pub graceful_timeout: Duration,
    /// Requests after which a worker is replaced.
    pub max_requests: Option<u64>,
    /// Up to so many more, by chance for each worker.
    pub max_requests_jitter: u64,
    /// Bytes of memory beyond which a worker is replaced after a request ([`Interpreter::memory_taken`](hydrozoa::Interpreter::memory_taken)).
    pub max_memory: Option<usize>,
    /// The event loop of ASGI.
    pub event_loop: Loop,
    /// The application's start and end.
    pub lifespan: Lifespan,
    /// The proxies whose headers say who the client is.
    pub proxies: Proxies,
    /// Whether a crash ends its worker alone.
    pub contain_crashes: bool,
    /// A folder on a disk for memory that workers do not use ([`Builder::dense`](hydrozoa::Builder::dense)).
    pub dense: Option<PathBuf>,
}

impl Settings {
    /// Of an application, with gunicorn's defaults, and as many workers as there are processors.
    pub fn new(application: impl Into<String>) -> Self {
        Self {
            application: application.into(),
            factory: false,
            interface: None,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            threads: 1,
            waiting: 2048,
            concurrency: 1000,
            root_path: String::new(),
            timeout: Some(Duration::from_secs(30)),
            graceful_timeout: Duration::from_secs(30),
            max_requests: None,
            max_requests_jitter: 0,
            max_memory: None,
            event_loop: Loop::Auto,
            lifespan: Lifespan::Auto,
            proxies: Proxies::default(),
            contain_crashes: false,
            dense: None,
        }
    }
}

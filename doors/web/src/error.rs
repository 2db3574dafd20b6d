//! Why an application is not served.

/// Why the workers have not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The application is not where the command line says.
    #[error("{0}")]
    Application(String),
    /// The application's code has raised an exception when it was imported or made.
    #[error("the application {application} has raised when it was loaded: {source}")]
    Load {
        /// `MODULE:APP`.
        application: String,
        /// The exception.
        source: Box<hydrozoa::Error>,
    },
    /// The application has refused to start, by the lifespan protocol of ASGI.
    #[error("the application {application} has failed to start: {source}")]
    Startup {
        /// `MODULE:APP`.
        application: String,
        /// The exception.
        source: Box<hydrozoa::Error>,
    },
    /// A worker would be replaced after its first request.
    #[error(
        "the application {application} takes {taken} bytes as soon as it is loaded, and --max-memory is {most}: give it more"
    )]
    Memory {
        /// `MODULE:APP`.
        application: String,
        /// Bytes that the interpreter takes.
        taken: usize,
        /// Bytes that it may take.
        most: usize,
    },
    /// The interpreters have not started.
    #[error("starting the workers: {0}")]
    Workers(#[source] Box<hydrozoa::Error>),
    /// The system has refused a thread.
    #[error("starting threads: {0}")]
    Threads(#[source] std::io::Error),
}

impl Error {
    /// Python's traceback, where the application's code has failed.
    pub fn traceback(&self) -> Option<&str> {
        match self {
            Error::Load { source, .. } | Error::Startup { source, .. } => source.traceback(),
            _ => None,
        }
    }
}

/// The text for the log about an exception: its traceback, or the error's own words.
pub(crate) fn trace(error: &hydrozoa::Error) -> String {
    match error.traceback() {
        Some(traceback) if !traceback.is_empty() => traceback.trim_end().to_owned(),
        _ => error.to_string(),
    }
}

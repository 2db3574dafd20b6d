//! Who has changed which models, for the log.

use axum::http::{HeaderMap, header};
use hydrozoa_serve::escaped;
use std::fmt;
use std::net::SocketAddr;

use crate::guard::Met;
use crate::service::Service;

/// A client that asks for a change.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    address: Option<SocketAddr>,
    /// The line of its token in the file of tokens, from 1.
    token: Option<usize>,
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(formatter, "{address}")?,
            None => formatter.write_str("a socket in the file system")?,
        }
        match self.token {
            Some(line) => write!(formatter, " with the token of line {line}"),
            None => Ok(()),
        }
    }
}

impl Client {
    /// A client at this address, or at a socket in the file system, that has shown no token.
    pub fn at(address: Option<SocketAddr>) -> Self {
        Self { address, token: None }
    }

    /// Who sends a request with these headers on such a connection.
    pub(crate) fn of(service: &Service, met: Option<&Met>, headers: &HeaderMap) -> Self {
        let token = service.token(headers.get(header::AUTHORIZATION));
        Self { address: met.and_then(|met| met.peer), token }
    }

    /// Has the log say what it has changed, or could not change.
    pub(crate) fn tell(self, action: &str, model: &str, files: &str, outcome: Result<&str, &str>) {
        let by = self;
        match outcome {
            Ok(versions) => {
                tracing::info!(%by, model, versions, files, "{action} by a client: done");
            }
            // The words may be those of code that the client has sent.
            Err(error) => {
                let error = escaped(error);
                tracing::warn!(%by, model, files, %error, "{action} by a client: failed");
            }
        }
    }
}

//! Logs which client changed which models.

use axum::http::{HeaderMap, header};
use hydrozoa_models::escaped;
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
    /// A client without a token, at this address or at a socket in the file system.
    pub fn at(address: Option<SocketAddr>) -> Self {
        Self { address, token: None }
    }

    /// The sender of a request with these headers on such a connection.
    pub(crate) fn of(service: &Service, met: Option<&Met>, headers: &HeaderMap) -> Self {
        let token = service.token(headers.get(header::AUTHORIZATION));
        Self { address: met.and_then(|met| met.peer), token }
    }

    /// Logs the change it made, or failed to make.
    pub(crate) fn tell(self, action: &str, model: &str, files: &str, outcome: Result<&str, &str>) {
        let by = self;
        match outcome {
            Ok(versions) => {
                tracing::info!(%by, model, versions, files, "{action} by a client: done");
            }
            // The words may come from code that the client sent.
            Err(error) => {
                let error = escaped(error);
                tracing::warn!(%by, model, files, %error, "{action} by a client: failed");
            }
        }
    }
}

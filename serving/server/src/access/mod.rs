//! The rights of clients: certificates, tokens, and the log of the clients that have changed models.

mod audit;
mod tls;
mod tokens;

pub use audit::Client;
pub use tls::{Tls, TlsError};
pub use tokens::{TokenError, Tokens};

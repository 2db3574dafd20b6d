//! What keeps the server reachable and its clients apart, whatever they send: who they may say that they ask, how many bytes of
//! requests are held, and how many connections there are. HTTP and gRPC share it.

mod address;
mod budget;
mod connections;
mod hosts;
mod origin;
mod pace;

pub(crate) use address::{Met, client_of};
pub(crate) use budget::{Account, Budget, Charge, Exhausted, default_bytes};
pub(crate) use connections::{Connections, Entry, Exchange, Place};
pub(crate) use hosts::{Authority, Listens};
pub use hosts::{HostError, Hosts};
pub(crate) use origin::foreign;
pub(crate) use pace::Pace;

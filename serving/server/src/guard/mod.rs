//! Keeps the server reachable and its clients apart, whatever they send. It checks the host that they name, and limits the bytes
//! of requests held and the number of connections. HTTP and gRPC share it.

mod address;
mod budget;
mod connections;
mod hosts;
mod origin;
mod pace;
mod watched_stream;

pub use address::Met;
pub(crate) use budget::{Account, Budget, Charge, Exhausted, default_bytes};
pub(crate) use connections::{ConnectionSlot, Connections, Exchange, OpenConnection};
pub(crate) use hosts::{Authority, Listens};
pub use hosts::{HostError, Hosts};
pub(crate) use origin::foreign;
pub use pace::Pace;
pub(crate) use watched_stream::{StreamWatch, Watched};

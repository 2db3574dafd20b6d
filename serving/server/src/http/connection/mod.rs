//! Connections: where a server listens, the threads that serve, and what is looked at before hyper sees it.

mod accept;
mod exchange;
mod heads;
mod listen;
mod threads;
mod version;
mod write_timeout;

pub use accept::serve;
pub(crate) use exchange::Ambiguous;
pub use exchange::Respond;
pub use listen::{Address, Listener};
pub use threads::Threads;

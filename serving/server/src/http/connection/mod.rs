//! Connections: where a server listens, the threads that serve, and what is looked at before hyper sees it.

mod accept;
mod exchange;
mod guest;
mod heads;
mod lane;
mod listen;
mod threads;
mod timer;
mod version;
mod write_timeout;

pub use accept::serve;
pub(crate) use exchange::Ambiguous;
pub use exchange::Respond;
pub use guest::{Bell, Guest};
pub use lane::Lane;
pub use listen::{Address, Listener};
pub use threads::Threads;

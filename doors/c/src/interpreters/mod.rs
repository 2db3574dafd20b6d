//! Pools of interpreters, leases on one of them, and what is done with its objects.

mod builder;
mod interrupt_handle;
mod object_operations;
mod pool;
mod session;

pub use interrupt_handle::hz_interrupt_handle;
pub use pool::hz_pool;
pub use session::hz_session;
pub(crate) use session::{object_in, with_object};

//! Memory that crosses without a copy.

mod buffer;
mod lent;
mod returned_numbers;
mod tensor;

pub use buffer::hz_buffer;
pub use lent::hz_memory;
pub(crate) use lent::{KeptMemory, memory_at};
pub use returned_numbers::hz_returns;

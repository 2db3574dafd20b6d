//! Native libraries: those that the collected ones need, and where this machine has them.

mod cache;
mod closure;
pub(crate) mod elf;
mod search;

pub(crate) use closure::{Closure, close};

//! The C interface: its header, and its installation.

pub mod header;
pub mod install;

//! The boundary between Hydrozoa's host and its payload.
//!
//! The payload is a C library that the loader loads into every interpreter. It is the only code that
//! calls Python's C API, and it is linked into nothing: host and payload know each other by the
//! tables of [`table`] alone. This crate holds the definitions that both sides compile, and tells
//! the host's build script where the payload's sources are ([`SOURCES`]).

pub mod dlpack;
pub mod failure;
pub mod interrupt;
pub mod limit;
pub mod memory;
pub mod pages;
pub mod sealed;
pub mod stream;
pub mod table;
pub mod tagged_value;

/// The folder of this package, which has the payload's sources: for the host's build script.
///
/// It is a path of the machine that compiles, and means nothing at run time.
pub const SOURCES: &str = env!("CARGO_MANIFEST_DIR");

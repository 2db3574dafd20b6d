//! The loader on small libraries that are built for each test.

mod common;
mod fork;
mod program;
mod refusals;
mod replicas;
mod shared;

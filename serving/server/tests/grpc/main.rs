//! The Open Inference Protocol over gRPC, as a client sees it.

mod calls;
mod command;
mod common;
mod endings;
mod limits;
mod malformed;
mod repositories;
mod responses;
mod shared_memory;
mod streams;

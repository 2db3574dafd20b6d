//! The C interface: `libhydrozoa.so`, `libhydrozoa.a`, and `include/hydrozoa.h`, which `cargo xtask header --write`
//! makes of these files.
//!
//! The rules for callers are at the top of the header (`cbindgen.toml`); docs/c.md is the manual. Each function here
//! parses its arguments ([`pointers`]), calls the runtime, and hands out the result. Decisions are made in one place: which
//! thread takes which call ([`crew`]).
//!
//! | file | holds |
//! |---|---|
//! | `status`, `failure` | what failed |
//! | `registry` | what is found by a number |
//! | `pointers` | arguments that are checked, and places for results |
//! | `error`, `boundary` | failures for the caller, and where panics end |
//! | `handle`, `value`, `plain`, `bytes` | values in and out |
//! | `interrupt`, `session`, `object` | a lease on an interpreter, and what is done with its objects |
//! | `buffer`, `tensor` | memory that crosses without a copy |
//! | `channel` | messages on their way |
//! | `queue` | queues between the program and interpreters |
//! | `pool`, `builder` | interpreters |
//! | `movable`, `package` | what every interpreter of a pool can use |
//! | `companion` | these for Python code of interpreters |
//! | `returns` | memory on its way back to a runtime that other threads cannot enter |
//! | `job`, `told`, `desk`, `crew`, `workers` | threads of the library's that run calls |
//!
//! A file uses those above it in this table and in its own row. `tests/tests/tidy/capi_floors.rs` reads it.

#![allow(non_camel_case_types, reason = "these are the names that C programs use")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules at the top of the header hold for all functions"
)]

mod boundary;
mod buffer;
mod builder;
mod bytes;
mod channel;
mod companion;
mod crew;
mod desk;
mod error;
mod failure;
mod handle;
mod interrupt;
mod job;
mod movable;
mod object;
mod package;
mod plain;
mod pointers;
mod pool;
mod queue;
mod registry;
mod returns;
mod session;
mod status;
mod tensor;
mod told;
mod value;
mod version;
mod workers;

/// What the header promises about threads.
const fn any_thread<T: Send + Sync>() {}

const _: () = {
    any_thread::<buffer::hz_buffer>();
    any_thread::<bytes::hz_bytes>();
    any_thread::<error::hz_error>();
    any_thread::<handle::hz_object>();
    any_thread::<interrupt::hz_interrupt_handle>();
    any_thread::<movable::hz_movable>();
    any_thread::<package::hz_package>();
    any_thread::<plain::hz_plain>();
    any_thread::<pool::hz_pool>();
    any_thread::<queue::hz_queue>();
    any_thread::<queue::hz_message>();
    any_thread::<returns::hz_returns>();
    // Another thread asks whose it is, and may free it.
    any_thread::<session::hz_session>();
    any_thread::<workers::hz_job>();
    any_thread::<workers::hz_workers>();
};

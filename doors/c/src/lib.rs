//! The C interface: `libhydrozoa.so`, `libhydrozoa.a`, and `include/hydrozoa.h`, which `cargo xtask header --write`
//! makes of these files.
//!
//! The rules for callers are at the top of the header (`cbindgen.toml`); docs/c.md is the manual. Each function here
//! parses its arguments, calls the runtime, and hands out the result. Decisions are made in one place: which thread takes
//! which call ([`workers`]).
//!
//! | folder | holds |
//! |---|---|
//! | `boundary` | arguments that are checked, places for results, failures, and where panics end |
//! | `values` | values in and out |
//! | `interpreters` | pools, leases on an interpreter, and what is done with its objects |
//! | `memory` | memory that crosses without a copy |
//! | `shared` | what every interpreter of a pool can use |
//! | `queues` | queues between the program and interpreters, and these for Python code |
//! | `workers` | threads of the library's that run calls |
//!
//! A folder uses those above it in this table. `tests/tests/tidy/rows.rs` reads it.

#![allow(non_camel_case_types, reason = "these are the names that C programs use")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules at the top of the header hold for all functions"
)]

mod boundary;
mod interpreters;
mod memory;
mod queues;
mod shared;
mod values;
mod version;
mod workers;

/// Checks the header's promise about threads.
const fn any_thread<T: Send + Sync>() {}

const _: () = {
    any_thread::<memory::hz_buffer>();
    any_thread::<values::hz_bytes>();
    any_thread::<boundary::hz_error>();
    any_thread::<values::hz_object>();
    any_thread::<interpreters::hz_interrupt_handle>();
    any_thread::<shared::hz_movable>();
    any_thread::<shared::hz_package>();
    any_thread::<values::hz_plain>();
    any_thread::<interpreters::hz_pool>();
    any_thread::<queues::hz_queue>();
    any_thread::<queues::hz_message>();
    any_thread::<memory::hz_returns>();
    // Another thread asks whose it is, and may free it.
    any_thread::<interpreters::hz_session>();
    any_thread::<workers::hz_job>();
    any_thread::<workers::hz_workers>();
};

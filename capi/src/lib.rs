//! The C interface: `libhydrozoa.so`, `libhydrozoa.a`, and `include/hydrozoa.h`, which `cargo xtask header --write` makes
//! of these files.
//!
//! The rules for callers are at the top of the header (`cbindgen.toml`); docs/c.md is the manual. Each function here
//! parses its arguments ([`boundary`]), calls the runtime, and hands out the result. No decision is made here.
//!
//! | file | holds |
//! |---|---|
//! | `boundary` | pointers that are checked, and where panics end |
//! | `status`, `error` | what failed |
//! | `builder`, `pool`, `session`, `interrupt` | interpreters, and leases on them |
//! | `value`, `plain`, `bytes` | values in and out |
//! | `object`, `buffer`, `tensor` | objects, and memory that crosses without a copy |
//! | `package`, `movable` | what every interpreter of a pool can use |

#![allow(non_camel_case_types, reason = "these are the names that C programs use")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules at the top of the header hold for all functions"
)]

mod boundary;
mod buffer;
mod builder;
mod bytes;
mod error;
mod interrupt;
mod movable;
mod object;
mod package;
mod plain;
mod pool;
mod session;
mod status;
mod tensor;
mod value;
mod version;

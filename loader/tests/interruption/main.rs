//! The loader interrupted: by signal handlers that unwind, and by forks, at any place of what its threads do.

#[path = "../libraries/common.rs"]
#[expect(dead_code, reason = "other tests use all of it")]
mod common;
mod process;
mod signals;

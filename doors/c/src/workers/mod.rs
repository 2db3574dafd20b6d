//! Threads of the library's that run calls.
//!
//! | file | holds |
//! |---|---|
//! | `job` | one call and its result |
//! | `assignments` | which worker takes which call |
//! | `notices` | messages to the thread that collects results |
//! | `scheduler` | these three together, for threads |
//! | `thread` | a worker's thread |
//! | `interface` | the functions for C |

mod assignments;
mod interface;
mod job;
mod notices;
mod scheduler;
mod thread;

pub use interface::{hz_job, hz_workers};

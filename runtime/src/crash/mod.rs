//! Reports of crashes: what a fatal signal in an interpreter's code leaves on standard error, before the process ends as it
//! would have ended without it.
//!
//! The report names the interpreter, the library and the function, and has the native stack, the registers and the Python
//! stacks. CPython's `faulthandler` names neither, and has to be asked for in each interpreter. A program, or code of an
//! interpreter, that handles such signals itself sees them as before: [`handler`] takes the place of the default action
//! alone, and of that of Rust's standard library.
//!
//! Everything from [`handler`] on runs in a handler of signals, maybe one that has interrupted malloc, on a stack of its own
//! (`arch`). It takes no lock that others hold for longer than a report, allocates nothing, and reads damaged memory by the
//! kernel ([`hydrozoa_loader::walk`]). [`interpreters`] and [`threads`] keep lists that such code can read; [`stacks`] has a
//! child read the Python stacks.

mod arch;
pub(crate) mod contain;
mod damage;
mod handler;
mod interpreters;
mod report;
mod signals;
pub(crate) mod stacks;
mod text;
mod threads;

pub(crate) use damage::{Damage, abort};
pub(crate) use handler::{install, shown, sigaction};
pub(crate) use interpreters::Listed;
pub use report::{CrashReport, on_crash};
pub(crate) use threads::prepare_thread;

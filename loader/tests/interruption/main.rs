//! The loader interrupted: by signal handlers that unwind, and by forks, at any place of what its threads do.

mod forks;
mod process;
mod signals;

//! The loader interrupted: by signal handlers that unwind, and by forks, at any place of what its threads do.

mod process;
mod signals;

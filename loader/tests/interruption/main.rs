//! Signal handlers that unwind, and forks, interrupt the loader at any point of its threads' work.

mod forks;
mod rounds;
mod signals;

//! The loader on small libraries that are built for each test.

mod children;
mod clibrary;
mod costs;
mod cxx_state;
mod environment;
mod exceptions;
mod exits;
mod fork;
mod interposed;
mod keys;
mod locale;
mod names;
mod own_environment;
mod owned;
mod places;
mod record_locks;
mod recycled;
mod refusals;
mod replicas;
mod shared;
mod text;
mod thread_local;

//! The loader on small libraries that are built for each test.

mod abandoned;
mod belongings;
mod brought;
mod children;
mod clibrary;
mod containers;
mod costs;
mod cxx_state;
mod descriptors;
mod environment;
mod exceptions;
mod exits;
mod file_names;
mod fork;
mod interposed;
mod keys;
mod locale;
mod own_environment;
mod record_locks;
mod recycled;
mod refusals;
mod replicas;
mod shared;
mod text_relocations;
mod thread_local;

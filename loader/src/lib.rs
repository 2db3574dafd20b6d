//! A loader that loads one ELF file many times: its text once, its data for each replica.
//!
//! `dlopen` of a loaded file returns the library already loaded. This crate gives each [`Domain`] a
//! replica of its own, with its own data, bss and thread-local storage. The kernel keeps one copy of
//! every page that no replica changes. Symbols bind within the domain first. The C library, and
//! libraries that hold no domain's state, exist once.
//!
//! ```no_run
//! use hydrozoa_loader::{Loader, OpenFlags};
//! # fn main() -> Result<(), hydrozoa_loader::Error> {
//! let loader = Loader::builder().build()?;
//! for name in ["one", "two", "three"] {
//!     let domain = loader.domain(name).build()?;
//!     // SAFETY: the library counts, in variables of its own; nobody changes its file.
//!     let library = unsafe { domain.open("libcounter.so".as_ref(), OpenFlags::NOW)? };
//!     let increment = library.symbol("increment")?;
//!     // SAFETY: the library declares `int increment(void)`.
//!     let increment: extern "C" fn() -> i32 = unsafe { std::mem::transmute(increment) };
//!     assert_eq!(increment(), 1); // every replica counts for itself
//! }
//! # Ok(()) }
//! ```
//!
//! [`Domain::open`] replicates its file. A [`Policy`] and the symbols decide about the libraries that
//! the file needs: a library that refers to symbols of the domain's global replicas is replicated too,
//! any other is loaded once, by the system's own loader or in the commons. When code in a replica calls
//! `dlopen` or its relatives, this crate answers for the replica's domain. [`DomainBuilder::interpose`]
//! replaces any function with one of the caller's. Start with the program `examples/counters.rs`.
//!
//! Debuggers, profilers and unwinders see replicas without help (gdb 13, perf, libgcc); lldb needs the
//! command in `debuggers/`. `docs/loader.md` of the repository lists what is supported, what is refused
//! with which message, and the test of each.
//!
//! A load has phases. Each reads what earlier phases made and changes none of it:
//! closure (find and classify) → plan (bind symbols) → map → relocate → publish → run.
//!
//! # What a process does not survive
//!
//! Code in replicas runs with the rights of the process, and its memory errors end the process. A file
//! that is truncated while it is mapped raises SIGBUS, as under every loader.

mod arch;
mod bind;
mod cost;
pub mod current;
mod dl;
mod domain;
mod error;
mod flags;
mod id;
mod image;
mod inspect;
mod load;
mod loader;
mod locale;
mod policy;
#[doc(hidden)]
pub mod preload;
mod replica;
mod sys;
mod system;
#[doc(hidden)]
pub mod testing;
mod tls;
mod visible;
pub mod walk;

pub use cost::Cost;
pub use dl::calling_back;
pub use dl::threads::{
    Around, Run, around_threads, at_birth, is_a_replicas_thread, may_end_by_force,
};
pub use domain::belongings::threads_of;
pub use domain::data::ReplicaData;
pub use domain::located::Located;
pub use domain::{Domain, ReplicaInfo};
#[doc(hidden)]
pub use error::remedy;
pub use error::{Error, Result};
pub use flags::OpenFlags;
pub use id::DomainId;
pub use image::ImageId;
pub use image::container::Container;
pub use image::enclosure::{Enclosure, enclose};
pub use image::files::{FileTable, by_names};
pub use image::provided::{provide, provide_part};
pub use inspect::{DependencyInfo, Inspection, SegmentInfo, TlsInfo};
pub use load::library::Library;
pub use loader::{DomainBuilder, Loader, LoaderBuilder, definition_in_the_program};
pub use policy::{Class, Decision, Policy, Rule};
pub use replica::thunk::{Chained, Interposition};
pub use sys::children::{concerns, ignore_children, reap_ignored};
pub use sys::exit::HeldExit;
pub use sys::lock::{LeafLock, order_accesses, undisturbed};
pub use sys::process::Process;
pub use sys::thread::number as thread_number;
pub use visible::publish::is_in_replica;

//! A loader that loads one ELF file many times: its text once, its data per replica.
//!
//! `dlopen` of a file that is loaded already returns what is there. This crate gives each
//! [`Domain`] a replica of its own, with its own data, bss and thread-local storage, while the
//! kernel keeps one copy of every page that no replica changes. Symbols bind within the domain
//! first; the C library and whatever holds no state of a domain exist once.
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
//! [`Domain::open`] replicates the file that it is given. Of what that needs, a [`Policy`] and the
//! symbols decide: what refers to symbols of the domain's global replicas is replicated too, all
//! else is loaded once, by the system's own loader or in the commons. Code in replicas that calls
//! `dlopen` and its kin is answered for its domain, and [`DomainBuilder::interpose`] puts functions
//! of the caller in the place of any others. `examples/counters.rs` is a program to begin with.
//!
//! Debuggers, profilers and unwinders know replicas without help (gdb 13, perf, libgcc); lldb by the
//! command in `debuggers/`. What is supported, what is refused in which words, and the test of each
//! is in `docs/loader.md` of the repository.
//!
//! A load goes through phases, each of which only reads what the one before made:
//! closure (find and classify) → plan (bind symbols) → map → relocate → publish → run.
//!
//! # What a process does not survive
//!
//! The code in replicas runs with the rights of the process: its memory errors are the process's,
//! and a file that is truncated while it is mapped raises SIGBUS, as under every loader.

mod arch;
mod bind;
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

pub use domain::{Domain, ReplicaInfo};
pub use error::{Error, Result};
pub use flags::OpenFlags;
pub use id::DomainId;
pub use image::provided::provide;
pub use inspect::{DependencyInfo, Inspection, SegmentInfo, TlsInfo};
pub use load::library::Library;
pub use loader::{DomainBuilder, Loader, LoaderBuilder};
pub use policy::{Class, Policy, Rule};
pub use replica::thunk::Interposition;

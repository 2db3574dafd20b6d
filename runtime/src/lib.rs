//! Many complete, unmodified CPython interpreters in one process.
//!
//! A [`Pool`] starts them; a [`Session`] is a lease on one; an [`Object`] is a Python object in it,
//! which cannot outlive its session. The application brings the threads: the pool hands out
//! interpreters, each with a GIL of its own.
//!
//! ```no_run
//! use hydrozoa::Pool;
//!
//! let pool = Pool::builder().interpreters(2).build()?;
//! std::thread::scope(|scope| {
//!     for _ in 0..2 {
//!         scope.spawn(|| -> hydrozoa::Result<()> {
//!             let session = pool.acquire()?;
//!             let root: f64 = session.import("math")?.call_method("sqrt", (2.0,))?.extract()?;
//!             println!("{root} from {}", session.interpreter().name());
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok::<(), hydrozoa::Error>(())
//! ```
//!
//! Cargo features, all off by default:
//!
//! | Feature | What it adds |
//! |---|---|
//! | `chrono` | dates, times and spans of the crate chrono as those of `datetime` |
//! | `half` | `f16` and `bf16` as elements of tensors, and as `float` |
//! | `ndarray` | arrays over the memory of tensors and buffers, and tensors of arrays |
//! | `num-complex` | `Complex` as an element of tensors, and as `complex` |
//! | `serde` | [`convert`]'s `Serde`: any type with serde's traits as plain Python values, both ways |
//! | `tch` | `tch::Tensor` in and out |

mod class;
mod cold;
mod command_line;
mod contained;
pub mod convert;
mod device;
pub mod entry;
mod environment;
mod error;
mod exception;
mod exit;
mod function;
mod handle;
mod heap;
mod imports;
mod inspect;
mod interpreter;
mod interrupt;
mod leaf;
mod libraries;
pub mod limits;
pub mod memory;
pub mod movable;
mod object;
pub mod package;
mod payload;
mod pool;
pub mod python;
mod session;
mod settle;
mod shared_signals;
mod streams;
mod thread;
pub mod torch;
mod torch_policy;
mod waiting;

#[doc(hidden)]
pub use class::generated;
pub use class::{Class, ClassBuilder, Instance};
pub use cold::{Settled, Unsettled};
pub use command_line::CommandLine;
pub use convert::buffer::Buffer;
pub use convert::element::Element;
pub use convert::tensor::{DataType, Tensor};
pub use convert::{
    FromPython, Integer, Named, Positional, Spread, ToArguments, ToKeywords, ToPython, Value,
};
pub use device::{Device, DeviceError};
pub use error::{Error, HostError, Result};
pub use exception::{Exception, Frame};
pub use function::{Arguments, Function, Returned};
pub use handle::Handle;
pub use hydrozoa_loader as loader;
pub use hydrozoa_macros::{class, function};
pub use imports::{ImportProfile, Imports};
pub use inspect::{Survey, Surveyed, inspect, survey};
pub use interpreter::{Interpreter, WeakInterpreter};
pub use interrupt::{InterruptHandle, Stuck};
pub use libraries::LibraryRules;
pub use movable::{Movable, Reply};
pub use object::{Iter, Object};
pub use package::Package;
pub use pool::{Builder, Interpreters, Pool, WeakPool};
pub use session::Session;
pub use torch::TorchPolicy;

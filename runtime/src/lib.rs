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
//! [`macro@function`] and [`Function`] let Python call Rust; [`macro@class`] and [`Class`] make Rust types Python classes.
//!
//! Cargo features, all off by default:
//!
//! | Feature | It adds |
//! |---|---|
//! | `async` | `EventLoop`: coroutines as Rust futures; `Session::awaitable`: Rust futures as awaitables |
//! | `chrono` | dates, times and spans of the crate chrono as those of `datetime` |
//! | `half` | `f16` and `bf16` as elements of tensors, and as `float` |
//! | `ndarray` | arrays over the memory of tensors and buffers, and tensors of arrays |
//! | `num-complex` | `Complex` as an element of tensors, and as `complex` |
//! | `serde` | [`convert`]'s `Serde`: any type with serde's traits as plain Python values, both ways |
//! | `tch` | `tch::Tensor` in and out |

mod adapters;
#[cfg(feature = "async")]
mod asynchronous;
mod class;
mod command_line;
pub mod convert;
mod crash;
mod dense;
mod device;
mod domain;
mod embedded_payloads;
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
mod launch;
mod libraries;
pub mod limits;
pub mod memory;
pub mod movable;
mod object;
pub mod package;
mod panics;
mod payload;
mod pool;
mod process;
pub mod python;
pub mod sealed;
mod session;
mod settle;
mod settled_pages;
mod shared_signals;
mod streams;
mod thread;
mod wait_circles;

#[cfg(feature = "async")]
pub use asynchronous::{EventLoop, Reactor, Task};
#[doc(hidden)]
pub use class::generated;
pub use class::{Class, ClassBuilder, Instance};
pub use command_line::CommandLine;
pub use convert::buffer::Buffer;
pub use convert::element::Element;
pub use convert::tensor::{DataType, Tensor};
pub use convert::{
    FromPython, Integer, Named, Positional, Spread, ToArguments, ToKeywords, ToPython, Value,
};
pub use crash::{CrashReport, on_crash};
pub use device::Device;
pub use error::{DeviceError, Error, Exception, HostError, Result, Unsettled};
pub use exception::Frame;
pub use function::{Arguments, Function, Returned};
pub use handle::Handle;
pub use hydrozoa_loader as loader;
/// A class of Python in Rust:
///
/// ```no_run
/// use hydrozoa::Session;
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// struct Counter(AtomicI64);
///
/// /// Counts.
/// #[hydrozoa::class]
/// impl Counter {
///     #[new]
///     #[signature = "(start=0)"]
///     fn new(start: i64) -> Self {
///         Counter(AtomicI64::new(start))
///     }
///
///     /// Adds n, and returns the sum.
///     #[signature = "(n=1)"]
///     fn add(&self, n: i64) -> i64 {
///         self.0.fetch_add(n, Ordering::Relaxed) + n
///     }
///
///     #[getter]
///     fn value(&self) -> i64 {
///         self.0.load(Ordering::Relaxed)
///     }
/// }
///
/// # fn f(session: &Session) -> hydrozoa::Result<()> {
/// session.import("builtins")?.setattr("Counter", session.class::<Counter>()?)?;
/// let five: i64 = session.eval("Counter(start=2).add(3)")?.extract()?;
/// # Ok(()) }
/// ```
pub use hydrozoa_macros::class;
/// A function for Python in Rust:
///
/// ```no_run
/// /// Multiplies a number.
/// #[hydrozoa::function]
/// #[signature = "(x, by=2.0)"]
/// fn scale(x: f64, by: f64) -> f64 {
///     x * by
/// }
///
/// # fn f(session: &hydrozoa::Session) -> hydrozoa::Result<()> {
/// let six: f64 = scale::to_python(session)?.call(3.0)?.extract()?;
/// # Ok(()) }
/// ```
pub use hydrozoa_macros::function;
pub use imports::{ImportProfile, Imports};
pub use inspect::{Survey, Surveyed, inspect, survey};
pub use interpreter::{Interpreter, WeakInterpreter, wait_for_ends};
pub use interrupt::{InterruptHandle, Stuck};
pub use libraries::LibraryRules;
pub use movable::{Movable, Reply};
pub use object::{Iter, Object};
pub use package::Package;
pub use pool::{Builder, Interpreters, Pool, WeakPool};
pub use process::exit_at_once;
pub use session::Session;
pub use settled_pages::{Settled, Settlings};

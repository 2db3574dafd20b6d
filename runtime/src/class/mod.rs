//! Rust types as Python classes.
//!
//! A class is a Python type of its own in each interpreter. Its instances hold an `Arc` of a Rust value, so instances in
//! several interpreters may hold one value.

mod builder;
#[doc(hidden)]
pub mod generated;
mod instance;

pub use builder::ClassBuilder;
pub use instance::Instance;

use crate::Result;
use crate::object::Object;
use crate::session::Session;

/// A Rust type whose values are instances of a Python class.
///
/// The attribute macro [`class`](macro@crate::class) implements this trait. [`Session::class`] makes the class. [`Instance`] takes values into Python and back.
///
/// Methods get `&self`, and any number of interpreters may call them at the same time. So mutable state is behind a lock or
/// atomic. Python may derive classes from the class. Instances cannot be pickled unless the class has a `__reduce__`.
///
/// ```no_run
/// use hydrozoa::{Class, ClassBuilder, Session};
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// struct Counter(AtomicI64);
///
/// impl Class for Counter {
///     const NAME: &'static str = "Counter";
///     const DOC: &'static str = "Counts.";
///
///     fn define(class: &mut ClassBuilder<'_, Self>) {
///         class
///             .constructor("(start=0)", |_, arguments| {
///                 Ok(Counter(AtomicI64::new(arguments.parameter(0, "start")?)))
///             })
///             .method("add(n=1)", "Adds n, and returns the sum.", |counter, session, arguments| {
///                 let n: i64 = arguments.parameter(0, "n")?;
///                 session.object_from(&(counter.0.fetch_add(n, Ordering::Relaxed) + n))
///             })
///             .getter("value", "What was counted.", |counter, session| {
///                 session.object_from(&counter.0.load(Ordering::Relaxed))
///             });
///     }
/// }
///
/// # fn f(session: &Session) -> hydrozoa::Result<()> {
/// session.import("builtins")?.setattr("Counter", session.class::<Counter>()?)?;
/// let five: i64 = session.eval("Counter(start=2).add(3)")?.extract()?;
/// # Ok(()) }
/// ```
pub trait Class: Send + Sync + Sized + 'static {
    /// The class's name.
    const NAME: &'static str;

    /// The name of the module that it says it is from. It is not put there.
    const MODULE: &'static str = "builtins";

    /// The class's `__doc__`.
    const DOC: &'static str = "";

    /// Says what the class has. Called once for each interpreter that gets the class.
    fn define(class: &mut ClassBuilder<'_, Self>);
}

impl Session {
    /// The Python class of `T` in this interpreter. It is made at the first call, and lives as long as the interpreter.
    ///
    /// # Errors
    ///
    /// The errors of [`ClassBuilder`]'s functions, and `MemoryError`.
    pub fn class<T: Class>(&self) -> Result<Object<'_>> {
        self.with_gil(|| match builder::registered::<T>(self) {
            Some(class) => Ok(class),
            None => ClassBuilder::<T>::make(self),
        })
    }
}

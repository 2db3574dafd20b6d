//! The work that both sides do.

use std::time::Duration;

use anyhow::Result;

/// Elements of an array of 1 MiB.
pub const ELEMENTS: usize = (1 << 20) / size_of::<f32>();

/// How many arrays exist at once.
pub const ARRAYS: usize = 32;

/// One way to call Python from Rust. Each function makes `calls` calls, checks each result, and returns the CPU time
/// that the thread took.
///
/// The first functions hold the GIL around all calls.
pub trait Side {
    /// A call without arguments that returns `None`.
    fn no_op(&self, calls: usize) -> Result<Duration>;
    /// `add(40, 2)` to `i64`.
    fn add(&self, calls: usize) -> Result<Duration>;
    /// `add(40, b=2)` to `i64`.
    fn keywords(&self, calls: usize) -> Result<Duration>;
    /// A method without arguments that returns `None`. Its name is a `&str`.
    fn method(&self, calls: usize) -> Result<Duration>;
    /// As [`Side::keywords`], as fast as the library can do it.
    fn keywords_interned(&self, calls: usize) -> Result<Duration>;
    /// As [`Side::method`], as fast as the library can do it.
    fn method_interned(&self, calls: usize) -> Result<Duration>;
    /// A `str` of 100 bytes there and back.
    fn text(&self, calls: usize) -> Result<Duration>;
    /// A list of 1,000 `f64` there and back.
    fn list(&self, calls: usize) -> Result<Duration>;
    /// A Rust function from `i64` to `i64` that Python calls.
    fn callback(&self, calls: usize) -> Result<Duration>;
    /// A numpy array over a vector of 1 MiB that exists before, and the array's memory back, without a copy.
    fn array(&self, calls: usize) -> Result<Duration>;
    /// As [`Side::array`], with the time to make the vector.
    fn new_array(&self, calls: usize) -> Result<Duration>;

    /// The GIL, a call without arguments, and the GIL given back.
    fn attach(&self, calls: usize) -> Result<Duration>;
    /// `math.sqrt(16.0)` from nothing: the interpreter, the import, the call.
    fn import(&self, calls: usize) -> Result<Duration>;
}

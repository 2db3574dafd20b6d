//! Measuring: load generation, percentiles, private memory, and the rivals beside ours.
//!
//! The same code measures for `hydrozoa bench`, for the demo and for the tests of the promised figures, so that they
//! cannot disagree about what a figure means.

pub mod contender;
pub mod drive;
pub mod memory;
pub mod models;
pub mod package;
pub mod samples;
pub mod trend;

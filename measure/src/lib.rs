//! Measuring: load generation, percentiles, memory of processes, and contenders that run in processes of their own.
//!
//! The same code measures for `hydrozoa bench`, for the demo and for the tests of the promised figures, so a figure
//! means the same thing in each. Private memory is what `hydrozoa::memory` defines, for Hydrozoa and for its rivals.

mod callers;
pub mod contender;
pub mod drive;
pub mod effort;
pub mod models;
pub mod orders;
pub mod package;
pub mod samples;
pub mod trend;

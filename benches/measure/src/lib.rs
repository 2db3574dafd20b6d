//! Measuring: load generation, percentiles, memory of processes, and contenders that run in processes of their own.
//!
//! The same code measures for `hydrozoa bench`, for the demo and for the tests of the promised figures, so a figure
//! means the same thing in each. Private memory is as `hydrozoa::memory` defines it, for Hydrozoa and for its rivals.
//!
//! Without the feature `interpreters`, which is there by default, the crate measures processes alone.

mod callers;
#[cfg(feature = "interpreters")]
pub mod contender;
pub mod drive;
pub mod effort;
pub mod family;
pub mod group;
pub mod machine;
#[cfg(feature = "interpreters")]
pub mod models;
#[cfg(feature = "interpreters")]
pub mod orders;
#[cfg(feature = "interpreters")]
pub mod package;
pub mod samples;
pub mod trend;

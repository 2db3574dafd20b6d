//! Code that the tasks share: named steps with counts, progress bars, the checkout and its cargo.

pub mod progress;
pub mod steps;
pub mod workspace;

//! Code that the conformance tests share. The tests themselves are in `tests/`. The programs that they run are in
//! `scripts/`.

pub mod commands;
pub mod isolation;
pub mod mappings;
pub mod place;
pub mod survivors;

/// Runs the first example of the README, and compiles the others.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// Compiles the example of the guide to packages.
#[cfg(doctest)]
#[doc = include_str!("../../docs/packages.md")]
pub struct Packages;

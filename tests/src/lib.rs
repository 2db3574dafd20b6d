//! Code that the conformance tests share. The tests themselves are in `tests/`. The programs that they run are in
//! `scripts/`.

pub mod commands;
pub mod isolation;
pub mod mappings;
pub mod place;
pub mod survivors;

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// Compiles the examples that follow it.
#[cfg(doctest)]
#[doc = include_str!("../../docs/start.md")]
pub struct Start;

/// Compiles the example of the guide to packages.
#[cfg(doctest)]
#[doc = include_str!("../../docs/packages.md")]
pub struct Packages;

//! Code that tasks and laboratories share: named steps with counts, progress bars, the checkout and its cargo, CPythons and
//! their virtual environments, and the command lines of programs that both run.

pub mod beside_pyo3;
pub mod cache;
pub mod compare;
pub mod debian;
pub mod effort;
pub mod environment;
pub mod libtest;
pub mod lock;
pub mod parallel;
pub mod progress;
pub mod python;
pub mod pythons;
pub mod steps;
pub mod time_limit;
pub mod tools;
pub mod triton;
pub mod uv;
pub mod venv;
pub mod workspace;

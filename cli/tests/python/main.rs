//! `hydrozoa python` beside the python executable.

mod beside;
mod forks;
mod loading;
mod process;

//! `hydrozoa python` beside the python executable.

mod beside;
mod forks;
mod interrupts;
mod loading;
mod process;

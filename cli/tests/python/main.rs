//! `hydrozoa python` beside the python executable.

mod beside;
mod differences;
mod forks;
mod interrupts;
mod loading;
mod process;

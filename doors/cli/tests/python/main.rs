//! `hydrozoa python` beside the python executable.

mod beside;
mod c_library;
mod differences;
mod forks;
mod interrupts;
mod loading;
mod owners;
mod process;
mod titles;

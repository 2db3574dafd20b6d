//! Code that the tests of several crates share.
//!
//! [`libraries`] builds small shared objects with the system's compiler. [`alone`] runs a test in a process of its
//! own. [`process`] runs an action in a forked child and lists a process's resources. [`refusal`] makes the kernel refuse chosen
//! system calls. [`elf`], [`mutate`] and [`model`] are for untrusted input: a reading of ELF files that is not the loader's,
//! mutations that know where its fields are, and what relocation must do to memory. `loader/fuzz`, which is outside of the
//! workspace, uses those three.

pub mod alone;
pub mod elf;
pub mod libraries;
pub mod model;
pub mod mutate;
pub mod process;
pub mod refusal;

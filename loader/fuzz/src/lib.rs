//! What the fuzz targets share: a reading of ELF files that is not the loader's ([`elf`]),
//! mutations that know where its fields are ([`mutate`]), and what relocation is to do to memory
//! ([`model`]).
//!
//! `cargo xtask fuzz` builds the targets, makes seeds of the linker cases, and runs them.

pub mod elf;
pub mod model;
pub mod mutate;

//! x86-64 (System V psABI, AMD64 supplement).

mod descriptor;
mod late;
mod relocation;
mod thunk;
mod tls;

pub(crate) use descriptor::{descriptor, undefined_weak_descriptor};
pub(crate) use late::write_late_thunk;
pub(crate) use relocation::{action, relocation_name};
pub(crate) use thunk::{THUNK_SIZE, write_thunk};
pub(crate) use tls::{thread_pointer, tls_get_addr};

/// EM_X86_64.
pub(crate) const MACHINE: u16 = goblin::elf::header::EM_X86_64;

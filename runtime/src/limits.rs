//! The limited resources of a process that one more interpreter with torch and torchvision takes.
//!
//! The figures are for an interpreter of a pool, with CPython 3.11 and torch 2.11, without
//! a CUDA device. Measured were 336 to 361 mappings and 232 MiB; the constants are rounded up. `runtime/tests/limits_torch.rs`
//! measures again and fails where a limit is exceeded, or is twice what is taken. Python without torch takes less.
//!
//! An interpreter takes none of the keys of thread-specific data, of which glibc has `PTHREAD_KEYS_MAX` (1,024) for a process
//! (pthread_key_create(3)): the loader gives replicas keys of its own. Libraries that exist once take theirs from glibc.

/// Memory mappings, of which the kernel allows a process `vm.max_map_count` (65,530 by default).
pub const MAPPINGS: u64 = 390;

/// Mappings that an interpreter may have besides when it is settled: two for each of 160 runs of pages, and those of one call that
/// goes beyond ([`Interpreter::settle`](crate::Interpreter::settle)). Measured with torch were 40 after the first call, and 142
/// after the second.
pub const SETTLED_MAPPINGS: u64 = 420;

/// Private memory in bytes ([`crate::memory`]) after both have been imported, without a model.
pub const PRIVATE_MEMORY: u64 = 248 << 20;

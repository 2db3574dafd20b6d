//! memray, which is refused.
//!
//! It writes its own functions over each reference to `malloc`, `free`, `mmap` and `dlopen` in the process: those of the application
//! and of all interpreters. Its functions call the C library's, and not what answers for that in an interpreter, and the references
//! stay so when it has ended (its src/memray/_memray/elf_shenanigans.cpp and hooks.h).
//!
//! The rule buys an ImportError with a reason, where the process would end later. Seen with the wheel of November 2026.

use crate::LibraryRule;
use hydrozoa_loader::Decision;

pub(crate) const RULE: LibraryRule = LibraryRule {
    patterns: &["*/memray/_memray.*so"],
    decision: Decision::Refused,
    reason: "memray takes over the memory of the whole process, which has other interpreters and the application in it; run the \
     program in python itself to profile it, and see Interpreter::memory for what an interpreter takes",
};

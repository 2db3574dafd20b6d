//! Answers to the host's questions: the memory of an interpreter's objects, and where its threads are.

pub(crate) mod package_sizes;
pub(crate) mod stack_of_thread;
pub(crate) mod stacks_without_gil;

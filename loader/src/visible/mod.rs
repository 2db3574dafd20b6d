//! What everybody else sees of replicas: unwinders, debuggers, `dladdr`, `dl_iterate_phdr`.

pub(crate) mod address;
pub(crate) mod debugger;
pub(crate) mod iterate;
pub(crate) mod publish;
pub(crate) mod unwind;

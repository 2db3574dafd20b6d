//! The view of replicas for unwinders, debuggers, `dladdr` and `dl_iterate_phdr`.

pub(crate) mod address;
pub(crate) mod debugger;
pub(crate) mod exception;
pub(crate) mod iterate;
pub(crate) mod publish;
pub(crate) mod redirect;
pub(crate) mod unwind;

//! The host's functions, instances and streams as Python objects.

pub(crate) mod functions;
pub(crate) mod instances;
pub(crate) mod signature;
pub(crate) mod streams;

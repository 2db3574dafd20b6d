//! Python models: their interpreters, and what crosses between them and the server.

mod convert;
mod host;
mod instance;

pub(crate) use host::Context;
pub(crate) use instance::{Executed, Instance, complete, says_ready};
pub use instance::{ModelFile, Told};

use hydrozoa::Pool;

/// The modules that models find, and those that run them.
const MODULES: [(&str, &str); 8] = [
    ("_hydrozoa_errors", include_str!("../../python/_hydrozoa_errors.py")),
    ("_hydrozoa_memory", include_str!("../../python/_hydrozoa_memory.py")),
    ("_hydrozoa_tensors", include_str!("../../python/_hydrozoa_tensors.py")),
    ("_hydrozoa_config", include_str!("../../python/_hydrozoa_config.py")),
    ("_hydrozoa_metrics", include_str!("../../python/_hydrozoa_metrics.py")),
    ("triton_python_backend_utils", include_str!("../../python/triton_python_backend_utils.py")),
    ("_hydrozoa_runner", include_str!("../../python/_hydrozoa_runner.py")),
    ("_hydrozoa_packaged", include_str!("../../python/_hydrozoa_packaged.py")),
];

/// Makes a pool's interpreters ready for a model.
pub(crate) fn prepare(pool: &Pool) -> hydrozoa::Result<()> {
    MODULES.iter().try_for_each(|(name, source)| pool.register_module(name, source))
}

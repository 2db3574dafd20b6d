//! The services that models may ask of the server: calls of others, loads, metrics.

use crate::call;
use crate::error::{self, Result, c_text};
use crate::metric::Family;
use crate::parameter::Made;
use crate::sys::{Error, Server, core};
use hydrozoa_models::host::{Call, Cancel, Host, MetricFamily, Overrides};
use std::ffi::c_char;
use std::sync::Arc;

/// A server, which outlives its models.
#[derive(Clone, Copy)]
pub(crate) struct ServerPointer(pub(crate) *mut Server);

// SAFETY: the functions that take a server may be called by any thread.
unsafe impl Send for ServerPointer {}
// SAFETY: as above.
unsafe impl Sync for ServerPointer {}

/// The server for its models.
pub(crate) struct Triton(pub(crate) ServerPointer);

impl Triton {
    /// Calls a function for a model of this name.
    fn named(
        &self,
        name: &str,
        function: unsafe extern "C" fn(*mut Server, *const c_char) -> *mut Error,
    ) -> Result<()> {
        let name = c_text(name)?;
        // SAFETY: the server outlives its models, and the name ends with NUL.
        unsafe { error::check(function(self.0.0, name.as_ptr())) }
    }

    fn load(&self, name: &str, overrides: &Overrides) -> Result<()> {
        let mut parameters = Made::default();
        if let Some(config) = &overrides.config {
            parameters.text("config", config)?;
        }
        for (path, data) in &overrides.files {
            parameters.bytes(path, data)?;
        }
        let parameters = parameters.all();
        if parameters.is_empty() {
            return self.named(name, core().TRITONSERVER_ServerLoadModel);
        }
        let name = c_text(name)?;
        let load = core().TRITONSERVER_ServerLoadModelWithParameters;
        let (first, count) = (parameters.as_ptr(), parameters.len() as u64);
        // SAFETY: as above. The parameters, and the bytes that they refer to, are there until this returns.
        unsafe { error::check(load(self.0.0, name.as_ptr(), first, count)) }
    }

    fn is_ready(&self, name: &str, version: i64) -> Result<bool> {
        let name = c_text(name)?;
        let ready = core().TRITONSERVER_ServerModelIsReady;
        // SAFETY: as above.
        unsafe { error::value(|place| ready(self.0.0, name.as_ptr(), version, place)) }
    }
}

impl Host for Triton {
    fn infer(&self, call: Call) -> Result<Box<dyn Cancel>> {
        Ok(Box::new(call::begin(self.0, call)?))
    }

    fn load_model(&self, name: &str, overrides: Overrides) -> std::result::Result<(), String> {
        self.load(name, &overrides).map_err(|failure| failure.message)
    }

    fn unload_model(&self, name: &str, dependents: bool) -> std::result::Result<(), String> {
        let unload = match dependents {
            true => core().TRITONSERVER_ServerUnloadModelAndDependents,
            false => core().TRITONSERVER_ServerUnloadModel,
        };
        self.named(name, unload).map_err(|failure| failure.message)
    }

    fn is_model_ready(&self, name: &str, version: &str) -> bool {
        let version = if version.is_empty() { Ok(-1) } else { version.parse() };
        version.is_ok_and(|version| self.is_ready(name, version).unwrap_or(false))
    }

    fn metric_family(
        &self,
        name: &str,
        description: &str,
        kind: &str,
    ) -> std::result::Result<Arc<dyn MetricFamily>, String> {
        match Family::new(name, description, kind) {
            Ok(family) => Ok(Arc::new(family)),
            Err(failure) => Err(failure.message),
        }
    }
}

//! A model: `TRITONBACKEND_ModelInitialize` and its end.

use crate::error::{self, Result, answer};
use crate::host::{ServerPointer, Triton};
use crate::settings::{self, Settings};
use crate::state;
use crate::sys::{self, Error, core};
use hydrozoa_models::hosted::{self, Instance, ModelFile};
use hydrozoa_models::{Code, Failure};
use parking_lot::Mutex;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The backend's state for a model.
pub(crate) struct Model {
    pointer: *mut sys::Model,
    settings: Settings,
    name: String,
    version: i64,
    directory: PathBuf,
    host: Arc<Triton>,
    /// The interpreter that has completed the configuration, for the first instance.
    spare: Mutex<Option<Instance>>,
}

impl Model {
    /// # Safety
    ///
    /// Triton has made the model, and nothing else has its state.
    unsafe fn new(model: *mut sys::Model) -> Result<Self> {
        let core = core();
        let (mut kind, mut version) = (0, 0);
        // SAFETY: as the caller vouches. The backend was initialized.
        unsafe {
            error::check((core.TRITONBACKEND_ModelVersion)(model, &raw mut version))?;
            let location = core.TRITONBACKEND_ModelRepository;
            let directory = error::string(|place| location(model, &raw mut kind, place))?;
            if kind != 0 {
                let words = format!("the files of the model are not in a file system, but {kind}");
                return Err(Failure::new(Code::Unsupported, words));
            }
            let backend = core.TRITONBACKEND_ModelBackend;
            let backend = error::pointer(|place| backend(model, place))?;
            let settings: &Settings =
                state::kept(|place| (core.TRITONBACKEND_BackendState)(backend, place))?;
            let server = error::pointer(|place| (core.TRITONBACKEND_ModelServer)(model, place))?;
            Ok(Self {
                pointer: model,
                settings: settings.clone(),
                name: error::string(|place| (core.TRITONBACKEND_ModelName)(model, place))?,
                version: i64::try_from(version).unwrap_or(i64::MAX),
                directory: directory.into(),
                host: Arc::new(Triton(ServerPointer(server))),
                spare: Mutex::default(),
            })
        }
    }

    /// The configuration as Triton has it now: the text, and its value.
    pub(crate) fn config(&self) -> Result<(String, Value)> {
        let core = core();
        // SAFETY: the model is there as long as its state. The message is the caller's.
        let text = unsafe {
            let get = core.TRITONBACKEND_ModelConfig;
            let message = error::pointer(|place| get(self.pointer, VERSION, place))?;
            let text = state::json(message);
            error::log("a message's end", (core.TRITONSERVER_MessageDelete)(message));
            text
        }?;
        let value = state::parse(&text, "the model's configuration")?;
        Ok((text, value))
    }

    /// An interpreter for an instance. The model's code is not run yet.
    pub(crate) fn interpreter(&self, config: &Value) -> Result<Instance> {
        if let Some(spare) = self.spare.lock().take() {
            return Ok(spare);
        }
        let builder = self.settings.builder(config, &self.directory)?;
        let file = ModelFile::new(&self.directory, self.version, hosted::file_name(config));
        let host = self.host.clone();
        Instance::start(builder, &self.name, file, host).map_err(|error| error::python(&error))
    }

    /// Lets the model complete its configuration.
    fn complete(&self) -> Result<()> {
        let core = core();
        // SAFETY: the model is valid.
        let wanted = unsafe {
            let ask = core.TRITONBACKEND_ModelAutoCompleteConfig;
            error::value(|place| ask(self.pointer, place))
        }?;
        if !wanted {
            return Ok(());
        }
        let (text, config) = self.config()?;
        let interpreter = self.interpreter(&config)?;
        let completed = interpreter.complete(&text).map_err(|error| error::python(&error))?;
        *self.spare.lock() = Some(interpreter);
        if state::parse(&completed, "the completed configuration")? == config {
            return Ok(());
        }
        // SAFETY: the text has so many bytes, and Triton copies it. The message is this function's.
        unsafe {
            let new = core.TRITONSERVER_MessageNewFromSerializedJson;
            let (start, len) = (completed.as_ptr().cast(), completed.len());
            let message = error::pointer(|place| new(place, start, len))?;
            let set = (core.TRITONBACKEND_ModelSetConfig)(self.pointer, VERSION, message);
            error::log("a message's end", (core.TRITONSERVER_MessageDelete)(message));
            error::check(set)
        }
    }
}

/// The version of configurations as JSON.
const VERSION: u32 = 1;

/// # Safety
///
/// Triton calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInitialize(model: *mut sys::Model) -> *mut Error {
    answer(|| {
        // SAFETY: Triton gives a valid model.
        let made = unsafe { Model::new(model) }?;
        made.complete()?;
        settings::lends_inputs(&made.config()?.1)?;
        // SAFETY: Triton keeps the model's state.
        unsafe { state::keep(made, |kept| (core().TRITONBACKEND_ModelSetState)(model, kept)) }
    })
}

/// # Safety
///
/// Triton calls it, after all instances have ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelFinalize(model: *mut sys::Model) -> *mut Error {
    answer(|| {
        // SAFETY: the state is that of `TRITONBACKEND_ModelInitialize`.
        let made = unsafe {
            state::take::<Model>(
                |place| (core().TRITONBACKEND_ModelState)(model, place),
                |kept| (core().TRITONBACKEND_ModelSetState)(model, kept),
            )
        }?;
        drop(made);
        Ok(())
    })
}

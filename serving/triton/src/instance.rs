//! An instance of a model: its start, its end, and the execution of batches.

use crate::error::{self, Result, answer};
use crate::model::Model;
use crate::request::{self, Held, Reading};
use crate::settings;
use crate::state;
use crate::sys::{self, Error, core};
use hydrozoa_models::hosted::{self, Told};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The backend's state for an instance.
struct Instance {
    instance: hosted::Instance,
    reading: Reading,
}

impl Instance {
    /// # Safety
    ///
    /// Triton has made the instance, and its model was initialized.
    unsafe fn new(pointer: *mut sys::Instance) -> Result<Self> {
        let core = core();
        // SAFETY: as the caller vouches.
        let (model, name, kind, device) = unsafe {
            let model = core.TRITONBACKEND_ModelInstanceModel;
            let model = error::pointer(|place| model(pointer, place))?;
            let model: &Model = state::kept(|place| (core.TRITONBACKEND_ModelState)(model, place))?;
            let name = core.TRITONBACKEND_ModelInstanceName;
            let kind = core.TRITONBACKEND_ModelInstanceKind;
            let device = core.TRITONBACKEND_ModelInstanceDeviceId;
            (
                model,
                error::string(|place| name(pointer, place))?,
                error::value(|place| kind(pointer, place))?,
                error::value(|place| device(pointer, place))?,
            )
        };
        let (text, config) = model.config()?;
        let is_decoupled = settings::is_decoupled(&config);
        let instance = model.interpreter(&config)?;
        let kind = match kind {
            sys::KIND_GPU => "GPU",
            sys::KIND_MODEL => "MODEL",
            _ => "CPU",
        };
        let told = Told { config: text, name, kind, device, is_decoupled };
        instance.initialize(told).map_err(|error| error::python(&error))?;
        let reading = Reading {
            lends_inputs: settings::lends_inputs(&config)?,
            has_batches: config["max_batch_size"].as_i64().unwrap_or_default() > 0,
        };
        Ok(Self { instance, reading })
    }

    /// Runs requests, and reports and releases them.
    fn execute(&self, pointer: *mut sys::Instance, requests: &[Held]) {
        let began = now();
        let mut batch = Vec::with_capacity(requests.len());
        let (mut outcomes, mut uses) = (Vec::with_capacity(requests.len()), Vec::new());
        let mut total = 0;
        for held in requests {
            let read = request::read(held, self.reading);
            outcomes.push(read.as_ref().map(|read| read.has_failed.clone()));
            if let Some(read) = read {
                total += read.size;
                uses.push(read.uses);
                batch.push(read.work);
            }
        }
        let computes = now();
        if !batch.is_empty()
            && let Err(error) = self.instance.execute(batch)
        {
            // The requests have got errors.
            tracing::error!("an execution: {error}");
        }
        let computed = now();
        if uses.iter().any(|uses| Arc::strong_count(uses) > 1) {
            tracing::error!(
                "a model keeps an input that is lent to it: the memory is the server's again. \
                 Leave out the model's parameter HYDROZOA_INPUTS, or copy the array"
            );
        }
        for (held, has_failed) in requests.iter().zip(outcomes) {
            let success = has_failed.is_some_and(|failed| !failed.load(Ordering::Relaxed));
            // SAFETY: Triton has called for this instance, and the request is held.
            unsafe {
                let report = core().TRITONBACKEND_ModelInstanceReportStatistics;
                let error =
                    report(pointer, held.pointer(), success, began, computes, computed, now());
                error::log("a request's statistics", error);
            }
        }
        if total > 0 {
            // SAFETY: Triton has called for this instance.
            unsafe {
                let report = core().TRITONBACKEND_ModelInstanceReportBatchStatistics;
                let error = report(pointer, total, began, computes, computed, now());
                error::log("a batch's statistics", error);
            }
        }
    }
}

/// Nanoseconds of the clock that Triton's statistics are of.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid, and Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// # Safety
///
/// Triton calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceInitialize(
    instance: *mut sys::Instance,
) -> *mut Error {
    answer(|| {
        // SAFETY: Triton gives a valid instance of an initialized model, and keeps its state.
        unsafe {
            let made = Instance::new(instance)?;
            let set = core().TRITONBACKEND_ModelInstanceSetState;
            state::keep(made, |kept| set(instance, kept))
        }
    })
}

/// # Safety
///
/// Triton calls it, when the instance executes nothing any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceFinalize(
    instance: *mut sys::Instance,
) -> *mut Error {
    answer(|| {
        // SAFETY: the state is that of `TRITONBACKEND_ModelInstanceInitialize`.
        let made = unsafe {
            state::take::<Instance>(
                |place| (core().TRITONBACKEND_ModelInstanceState)(instance, place),
                |kept| (core().TRITONBACKEND_ModelInstanceSetState)(instance, kept),
            )
        }?;
        drop(made);
        Ok(())
    })
}

/// # Safety
///
/// Triton calls it, one batch of an instance at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceExecute(
    instance: *mut sys::Instance,
    requests: *mut *mut sys::Request,
    count: u32,
) -> *mut Error {
    answer(|| {
        // SAFETY: the state is that of `TRITONBACKEND_ModelInstanceInitialize`.
        let made: &Instance = unsafe {
            state::kept(|place| (core().TRITONBACKEND_ModelInstanceState)(instance, place))
        }?;
        // From here on the requests are the backend's: no error is returned.
        let all: Vec<Held> = (0..count as usize)
            // SAFETY: Triton gives so many requests, each to be released once.
            .map(|index| unsafe { Held::new(*requests.add(index)) })
            .collect();
        error::contained("an execution", || made.execute(instance, &all));
        Ok(())
    })
}

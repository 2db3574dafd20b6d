//! Requests of Triton's, for models.

use crate::error::{self, Result};
use crate::response::Factory;
use crate::sys::{self, core};
use crate::{datatype, parameter};
use bytes::{Bytes, BytesMut};
use hydrozoa_models::hosted::{Lent, Work};
use hydrozoa_models::{Code, CorrelationId, DataType, Event, Failure, Input, Request};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request that Triton has handed over. Dropping it releases it.
pub(crate) struct Held(*mut sys::Request);

impl Held {
    /// # Safety
    ///
    /// Triton has handed the request over, to be released once.
    pub(crate) unsafe fn new(request: *mut sys::Request) -> Self {
        Self(request)
    }

    pub(crate) fn pointer(&self) -> *mut sys::Request {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: it is released once.
        unsafe {
            let error = (core().TRITONBACKEND_RequestRelease)(self.0, sys::RELEASE_ALL);
            error::log("a request could not be released", error);
        }
    }
}

/// Memory of a request's, which a model has been promised to use until its response only.
struct RequestMemory {
    start: *const u8,
    len: usize,
    /// Its count tells whether the model keeps the memory.
    _use: Arc<()>,
}

// SAFETY: nobody writes the memory while the request waits for its response.
unsafe impl Send for RequestMemory {}

impl AsRef<[u8]> for RequestMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the request has these bytes. It waits for its response, and who has set HYDROZOA_INPUTS vouches that the
        // model does not use them later. An empty input is not lent.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

/// How requests of an instance are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    /// Whether models get arrays over Triton's memory.
    pub(crate) lends_inputs: bool,
    /// Whether the first extent is the batch's.
    pub(crate) has_batches: bool,
}

/// A request that was read.
pub(crate) struct Read {
    pub(crate) work: Work,
    /// How many inferences it is.
    pub(crate) size: u64,
    /// Whether it has got an error.
    pub(crate) has_failed: Arc<AtomicBool>,
    /// Has further owners while the model has lent inputs.
    pub(crate) uses: Arc<()>,
}

/// Reads a request. If that fails, its client gets the error.
pub(crate) fn read(held: &Held, reading: Reading) -> Option<Read> {
    // SAFETY: the request is held.
    let factory = match unsafe { Factory::new(held.pointer()) } {
        Ok(factory) => Arc::new(factory),
        Err(failure) => {
            tracing::error!("a request cannot be answered: {failure}");
            return None;
        }
    };
    let uses = Arc::new(());
    match parts(held, reading, &uses) {
        Ok((request, lent)) => {
            let shapes = request.inputs.iter().map(|input| &input.shape);
            let mut shapes = shapes.chain(lent.iter().map(|input| &input.shape));
            let first = shapes.next().and_then(|shape| shape.first());
            let size = first.and_then(|extent| u64::try_from(*extent).ok());
            let size = size.filter(|_| reading.has_batches).unwrap_or(1);
            let has_failed = Arc::new(AtomicBool::new(false));
            Some(Read { work: work(request, lent, factory, &has_failed), size, has_failed, uses })
        }
        Err(failure) => {
            factory.send(Event { response: Some(Err(failure)), is_final: true });
            None
        }
    }
}

fn work(
    request: Request,
    lent: Vec<Lent>,
    factory: Arc<Factory>,
    has_failed: &Arc<AtomicBool>,
) -> Work {
    let (sender, has_failed) = (factory.clone(), has_failed.clone());
    Work {
        request,
        lent,
        respond: Box::new(move |event: Event| {
            if !sender.send(event) {
                has_failed.store(true, Ordering::Relaxed);
            }
        }),
        is_cancelled: Box::new(move || factory.is_cancelled()),
    }
}

fn parts(held: &Held, reading: Reading, uses: &Arc<()>) -> Result<(Request, Vec<Lent>)> {
    let (core, request) = (core(), held.pointer());
    // SAFETY: the request is held, and the places are valid.
    unsafe {
        let mut inputs = Vec::new();
        let mut lent = Vec::new();
        let count = core.TRITONBACKEND_RequestInputCount;
        for index in 0..error::value(|place| count(request, place))? {
            let get = core.TRITONBACKEND_RequestInputByIndex;
            let input = error::pointer(|place| get(request, index, place))?;
            match read_input(input, reading.lends_inputs.then_some(uses))? {
                Given::Lent(one) => lent.push(one),
                Given::Copied(one) => inputs.push(one),
            }
        }
        let count = core.TRITONBACKEND_RequestOutputCount;
        let outputs = (0..error::value(|place| count(request, place))?).map(|index| {
            error::string(|place| (core.TRITONBACKEND_RequestOutputName)(request, index, place))
        });
        let outputs = outputs.collect::<Result<_>>()?;
        let timeout = core.TRITONBACKEND_InferenceRequestTimeoutMicroseconds;
        let get = core.TRITONBACKEND_RequestParameter;
        let made = Request {
            id: error::string(|place| (core.TRITONBACKEND_RequestId)(request, place))?,
            correlation_id: correlation_id(request)?,
            flags: error::value(|place| (core.TRITONBACKEND_RequestFlags)(request, place))?,
            // The server has scheduled it.
            priority: 0,
            timeout: error::value(|place| timeout(request, place))?,
            parameters: parameter::all(
                |place| (core.TRITONBACKEND_RequestParameterCount)(request, place),
                &|index, name, kind, value| get(request, index, name, kind, value),
            )?,
            outputs,
            inputs,
        };
        Ok((made, lent))
    }
}

/// # Safety
///
/// The request is valid.
unsafe fn correlation_id(request: *mut sys::Request) -> Result<CorrelationId> {
    let core = core();
    // SAFETY: as the caller vouches. Triton refuses to give an identity of one kind as the other.
    unsafe {
        let number = core.TRITONBACKEND_RequestCorrelationId;
        if let Ok(number) = error::value(|place| number(request, place)) {
            return Ok(CorrelationId::Number(number));
        }
        let text = core.TRITONBACKEND_RequestCorrelationIdString;
        error::string(|place| text(request, place)).map(CorrelationId::Text)
    }
}

enum Given {
    Lent(Lent),
    Copied(Input),
}

/// # Safety
///
/// The input is one of the request's.
unsafe fn read_input(input: *mut sys::Input, lends: Option<&Arc<()>>) -> Result<Given> {
    let (mut name, mut kind, mut shape, mut dims): (*const c_char, c_int, *const i64, u32) =
        (null(), 0, null(), 0);
    let (mut size, mut count) = (0, 0);
    // SAFETY: as the caller vouches. The shape has so many extents.
    let (name, shape) = unsafe {
        let get = core().TRITONBACKEND_InputProperties;
        error::check(get(
            input,
            &raw mut name,
            &raw mut kind,
            &raw mut shape,
            &raw mut dims,
            &raw mut size,
            &raw mut count,
        ))?;
        let shape = if dims == 0 {
            Vec::new()
        } else {
            slice::from_raw_parts(shape, dims as usize).to_vec()
        };
        (error::text(name), shape)
    };
    let data_type = datatype::of_number(kind, &name)?;
    // SAFETY: as the caller vouches.
    let parts = (0..count).map(|index| unsafe { buffer(input, index, &name) });
    let parts: Vec<(*const u8, usize)> = parts.collect::<Result<_>>()?;
    check_size(data_type, &shape, parts.iter().map(|part| part.1).sum(), &name)?;
    if let (&[(start, len)], Some(element), Some(uses)) = (&*parts, data_type.size(), lends)
        && data_type != DataType::Bf16
        && len > 0
        && start.addr().is_multiple_of(element)
    {
        let data = Bytes::from_owner(RequestMemory { start, len, _use: uses.clone() });
        return Ok(Given::Lent(Lent { name, data_type, shape, data }));
    }
    let mut data = BytesMut::with_capacity(usize::try_from(size).unwrap_or_default());
    for (start, len) in parts.into_iter().filter(|part| part.1 > 0) {
        // SAFETY: the request has these bytes, and is held.
        data.extend_from_slice(unsafe { slice::from_raw_parts(start, len) });
    }
    Ok(Given::Copied(Input { name, data_type, shape, data }))
}

/// The bytes are those of the shape. Triton checks that too, for inputs of most kinds.
fn check_size(data_type: DataType, shape: &[i64], bytes: usize, name: &str) -> Result<()> {
    let Some(element) = data_type.size() else { return Ok(()) };
    let expected = shape
        .iter()
        .try_fold(element, |product, extent| product.checked_mul(usize::try_from(*extent).ok()?));
    if expected == Some(bytes) {
        return Ok(());
    }
    let words =
        format!("input '{name}' has {bytes} bytes, which are not those of extents {shape:?}");
    Err(Failure::new(Code::InvalidArgument, words))
}

/// # Safety
///
/// The input is valid, and has so many buffers.
unsafe fn buffer(input: *mut sys::Input, index: u32, name: &str) -> Result<(*const u8, usize)> {
    let mut start: *const c_void = null();
    let (mut len, mut memory, mut device) = (0, sys::MEMORY_CPU, 0);
    // SAFETY: as the caller vouches.
    unsafe {
        let get = core().TRITONBACKEND_InputBuffer;
        let places = (&raw mut start, &raw mut len, &raw mut memory, &raw mut device);
        error::check(get(input, index, places.0, places.1, places.2, places.3))?;
    }
    if memory == sys::MEMORY_GPU {
        let words = format!(
            "input '{name}' is in memory of GPU {device}; this backend takes inputs in memory of the processor"
        );
        return Err(Failure::new(Code::Unsupported, words));
    }
    Ok((start.cast(), usize::try_from(len).unwrap_or_default()))
}

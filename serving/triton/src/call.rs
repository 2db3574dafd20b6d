//! Calls of other models: `InferenceRequest.exec` of a model, by `TRITONSERVER_ServerInferAsync`.

use crate::error::{self, Result, c_text};
use crate::parameter::{self, Setters};
use crate::sys::{self, Error, InferenceRequest, InferenceResponse, ResponseAllocator, core};
use crate::{datatype, host};
use bytes::Bytes;
use hydrozoa_models::host::{Call, Cancel, Respond};
use hydrozoa_models::{Code, CorrelationId, Event, Failure, Input, Output, Request, Response};
use parking_lot::Mutex;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::{Arc, OnceLock};

/// A request under way.
struct UnderWay {
    request: Mutex<Owned>,
    /// `None` after the last response.
    respond: Mutex<Option<Respond>>,
    /// Triton reads them until it lets go of the request.
    inputs: Mutex<Vec<Input>>,
}

/// A request that this library has to delete: when Triton has let go of it and its last response has come. A decoupled
/// model's request is let go of earlier, and can be cancelled until then.
struct Owned {
    /// Null after that.
    request: *mut InferenceRequest,
    is_released: bool,
    is_completed: bool,
}

// SAFETY: the request is used under the lock, by any thread.
unsafe impl Send for Owned {}

impl Owned {
    fn delete(&mut self) {
        let request = std::mem::replace(&mut self.request, null_mut());
        if !request.is_null() {
            // SAFETY: it is deleted once.
            unsafe {
                let error = (core().TRITONSERVER_InferenceRequestDelete)(request);
                error::log("a request's end", error);
            }
        }
    }

    fn delete_if_over(&mut self) {
        if self.is_released && self.is_completed {
            self.delete();
        }
    }
}

impl UnderWay {
    fn respond(&self, event: Event) {
        let is_final = event.is_final;
        let mut place = self.respond.lock();
        if let Some(respond) = &mut *place {
            respond(event);
        }
        if is_final {
            *place = None;
        }
    }
}

/// The call for who made it.
pub(crate) struct Handle(Arc<UnderWay>);

impl Cancel for Handle {
    fn cancel(&self) {
        let owned = self.0.request.lock();
        if !owned.request.is_null() && !owned.is_completed {
            // SAFETY: the request is deleted under this lock only.
            unsafe {
                let error = (core().TRITONSERVER_InferenceRequestCancel)(owned.request);
                error::log("a call could not be cancelled", error);
            }
        }
    }
}

/// Begins a call.
pub(crate) fn begin(server: host::ServerPointer, call: Call) -> Result<Handle> {
    let (name, version) = (c_text(&call.model)?, call.version.unwrap_or(-1));
    let core = core();
    // SAFETY: the server outlives its models, and the name ends with NUL.
    let (is_ready, properties) = unsafe {
        let ready = core.TRITONSERVER_ServerModelIsReady;
        let properties = core.TRITONSERVER_ServerModelTransactionProperties;
        (
            error::value(|place| ready(server.0, name.as_ptr(), version, place))?,
            error::value(|place| properties(server.0, name.as_ptr(), version, place, null_mut())),
        )
    };
    if !is_ready {
        let words = format!(
            "Failed for execute the inference request. Model '{}' is not ready.",
            call.model
        );
        return Err(Failure::new(Code::Unavailable, words));
    }
    if properties? & sys::DECOUPLED != 0 && !call.decoupled {
        return Err(Failure::needs_decoupled(&call.model));
    }
    // SAFETY: as above.
    let request = unsafe {
        let new = core.TRITONSERVER_InferenceRequestNew;
        error::pointer(|place| new(place, server.0, name.as_ptr(), version))
    }?;
    let under_way = Arc::new(UnderWay {
        request: Mutex::new(Owned { request, is_released: false, is_completed: false }),
        respond: Mutex::new(Some(call.respond)),
        inputs: Mutex::default(),
    });
    // SAFETY: the request is new, and nobody else has it.
    unsafe {
        if let Err(failure) = fill(request, call.request, &under_way) {
            under_way.request.lock().delete();
            return Err(failure);
        }
        // A reference for each callback: one for the release, one for the last response.
        let (released, completed) =
            (Arc::into_raw(under_way.clone()), Arc::into_raw(under_way.clone()));
        let outcome = callbacks(request, released, completed).and_then(|()| {
            error::check((core.TRITONSERVER_ServerInferAsync)(server.0, request, null_mut()))
        });
        if let Err(failure) = outcome {
            // Then none of the callbacks is called.
            drop((Arc::from_raw(released), Arc::from_raw(completed)));
            under_way.request.lock().delete();
            return Err(failure);
        }
    }
    Ok(Handle(under_way))
}

/// # Safety
///
/// The request is valid and new.
unsafe fn fill(
    target: *mut InferenceRequest,
    request: Request,
    under_way: &UnderWay,
) -> Result<()> {
    let core = core();
    let id = c_text(&request.id)?;
    // SAFETY: as the caller vouches. Triton copies texts and shapes. The inputs' bytes do not move with their handles, which
    // are kept until Triton lets go of the request.
    unsafe {
        error::check((core.TRITONSERVER_InferenceRequestSetId)(target, id.as_ptr()))?;
        error::check(match &request.correlation_id {
            CorrelationId::Number(number) => {
                (core.TRITONSERVER_InferenceRequestSetCorrelationId)(target, *number)
            }
            CorrelationId::Text(text) => {
                let text = c_text(text)?;
                let set = core.TRITONSERVER_InferenceRequestSetCorrelationIdString;
                set(target, text.as_ptr())
            }
        })?;
        error::check((core.TRITONSERVER_InferenceRequestSetFlags)(target, request.flags))?;
        let set = core.TRITONSERVER_InferenceRequestSetTimeoutMicroseconds;
        error::check(set(target, request.timeout))?;
        let setters = Setters {
            text: core.TRITONSERVER_InferenceRequestSetStringParameter,
            int: core.TRITONSERVER_InferenceRequestSetIntParameter,
            bool: core.TRITONSERVER_InferenceRequestSetBoolParameter,
            double: core.TRITONSERVER_InferenceRequestSetDoubleParameter,
        };
        setters.set(target, &request.parameters)?;
        for input in &request.inputs {
            let name = c_text(&input.name)?;
            let (kind, shape) = (datatype::number(input.data_type), &input.shape);
            let add = core.TRITONSERVER_InferenceRequestAddInput;
            error::check(add(target, name.as_ptr(), kind, shape.as_ptr(), shape.len() as u64))?;
            let append = core.TRITONSERVER_InferenceRequestAppendInputData;
            let (start, len) = (input.data.as_ptr().cast(), input.data.len());
            error::check(append(target, name.as_ptr(), start, len, sys::MEMORY_CPU, 0))?;
        }
        for output in &request.outputs {
            let name = c_text(output)?;
            let add = core.TRITONSERVER_InferenceRequestAddRequestedOutput;
            error::check(add(target, name.as_ptr()))?;
        }
    }
    *under_way.inputs.lock() = request.inputs;
    Ok(())
}

/// # Safety
///
/// The request is valid. Both pointers come from `Arc::into_raw`, and each is given back by one callback.
unsafe fn callbacks(
    request: *mut InferenceRequest,
    released: *const UnderWay,
    completed: *const UnderWay,
) -> Result<()> {
    let (released, completed) = (released.cast_mut().cast(), completed.cast_mut().cast());
    let allocator = allocator()?;
    let core = core();
    // SAFETY: as the caller vouches. The allocator lives as long as the process.
    unsafe {
        let set = core.TRITONSERVER_InferenceRequestSetReleaseCallback;
        error::check(set(request, on_release, released))?;
        let set = core.TRITONSERVER_InferenceRequestSetResponseCallback;
        error::check(set(request, allocator, null_mut(), on_response, completed))
    }
}

/// Triton lets go of the request.
///
/// # Safety
///
/// Triton calls it once, with what `callbacks` has given.
unsafe extern "C" fn on_release(_: *mut InferenceRequest, flags: u32, data: *mut c_void) {
    if flags & sys::RELEASE_ALL == 0 {
        return;
    }
    // SAFETY: `callbacks` has given it, and this is the one call that takes it.
    let under_way = unsafe { Arc::from_raw(data.cast::<UnderWay>().cast_const()) };
    under_way.inputs.lock().clear();
    let mut owned = under_way.request.lock();
    owned.is_released = true;
    owned.delete_if_over();
}

/// A response has come.
///
/// # Safety
///
/// Triton calls it with what `callbacks` has given, for the last time with the final flag.
unsafe extern "C" fn on_response(response: *mut InferenceResponse, flags: u32, data: *mut c_void) {
    let is_final = flags & sys::FINAL != 0;
    let data = data.cast::<UnderWay>().cast_const();
    // SAFETY: the final call takes what `callbacks` has given; the others come before it.
    unsafe {
        if !is_final {
            Arc::increment_strong_count(data);
        }
        let under_way = Arc::from_raw(data);
        let response = (!response.is_null()).then(|| read(Arc::new(Received(response))));
        under_way.respond(Event { response, is_final });
        if is_final {
            let mut owned = under_way.request.lock();
            owned.is_completed = true;
            owned.delete_if_over();
        }
    }
}

/// A response that this library has to delete.
struct Received(*mut InferenceResponse);

// SAFETY: Triton lets any thread delete a response, and nothing changes it before.
unsafe impl Send for Received {}
// SAFETY: as above.
unsafe impl Sync for Received {}

impl Drop for Received {
    fn drop(&mut self) {
        // SAFETY: it is deleted once.
        unsafe {
            error::log("a response's end", (core().TRITONSERVER_InferenceResponseDelete)(self.0));
        }
    }
}

/// Memory of an output. It goes with its response.
struct ResponseMemory {
    start: *const u8,
    len: usize,
    _response: Arc<Received>,
}

// SAFETY: nobody writes the memory while the response is there.
unsafe impl Send for ResponseMemory {}

impl AsRef<[u8]> for ResponseMemory {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the response has these bytes, and is kept.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

/// # Safety
///
/// The response is valid.
unsafe fn read(received: Arc<Received>) -> Result<Response> {
    let (core, response) = (core(), received.0);
    // SAFETY: as the caller vouches. An error of a response is the response's, and is not deleted.
    unsafe {
        let failed = (core.TRITONSERVER_InferenceResponseError)(response);
        if !failed.is_null() {
            return Err(error::read(failed));
        }
        let get = core.TRITONSERVER_InferenceResponseParameter;
        let parameters = parameter::all(
            |count| (core.TRITONSERVER_InferenceResponseParameterCount)(response, count),
            &|index, name, kind, value| get(response, index, name, kind, value),
        )?;
        let count = core.TRITONSERVER_InferenceResponseOutputCount;
        let count = error::value(|place| count(response, place))?;
        let outputs = (0..count).map(|index| output(&received, index)).collect::<Result<_>>()?;
        Ok(Response { outputs, parameters })
    }
}

/// # Safety
///
/// The response is valid, and has so many outputs.
unsafe fn output(received: &Arc<Received>, index: u32) -> Result<Output> {
    let (mut name, mut kind, mut shape, mut dims): (*const c_char, c_int, *const i64, u64) =
        (null(), 0, null(), 0);
    let (mut start, mut len, mut memory, mut device, mut data) = (null(), 0, 0, 0, null_mut());
    // SAFETY: as the caller vouches. All places are there. The shape has so many extents.
    unsafe {
        let get = core().TRITONSERVER_InferenceResponseOutput;
        error::check(get(
            received.0,
            index,
            &raw mut name,
            &raw mut kind,
            &raw mut shape,
            &raw mut dims,
            &raw mut start,
            &raw mut len,
            &raw mut memory,
            &raw mut device,
            &raw mut data,
        ))?;
        let name = error::text(name);
        let shape = if dims == 0 {
            Vec::new()
        } else {
            slice::from_raw_parts(shape, dims as usize).to_vec()
        };
        let data_type = datatype::of_number(kind, &name)?;
        let memory = ResponseMemory { start: start.cast(), len, _response: received.clone() };
        Ok(Output { name, data_type, shape, data: Bytes::from_owner(memory) })
    }
}

/// The allocator of other models' outputs.
fn allocator() -> Result<*mut ResponseAllocator> {
    struct Allocator(*mut ResponseAllocator);
    // SAFETY: any thread may use it.
    unsafe impl Send for Allocator {}
    // SAFETY: as above.
    unsafe impl Sync for Allocator {}
    static ALLOCATOR: OnceLock<Result<Allocator>> = OnceLock::new();
    let made = ALLOCATOR.get_or_init(|| {
        let new = core().TRITONSERVER_ResponseAllocatorNew;
        // SAFETY: the functions keep the rules of an allocator's.
        unsafe { error::pointer(|place| new(place, on_allocate, on_deallocate, null())) }
            .map(Allocator)
    });
    made.as_ref().map(|made| made.0).map_err(Clone::clone)
}

fn layout(len: usize) -> Option<Layout> {
    // As numpy's arrays start.
    Layout::from_size_align(len, 64).ok().filter(|layout| layout.size() > 0)
}

/// Memory of the processor for an output, wherever the other model would like to have it.
///
/// # Safety
///
/// As Triton calls an allocator's function.
unsafe extern "C" fn on_allocate(
    _allocator: *mut ResponseAllocator,
    name: *const c_char,
    len: usize,
    _memory: c_int,
    _device: i64,
    _data: *mut c_void,
    buffer: *mut *mut c_void,
    buffer_data: *mut *mut c_void,
    memory: *mut c_int,
    device: *mut i64,
) -> *mut Error {
    error::answer(|| {
        // SAFETY: the layout's size is not zero.
        let start = layout(len).map_or(null_mut(), |layout| unsafe { alloc(layout) });
        if start.is_null() && len > 0 {
            // SAFETY: a name ends with NUL.
            let name = unsafe { error::text(name) };
            let words = format!("{len} bytes for output '{name}' cannot be allocated");
            return Err(Failure::new(Code::Internal, words));
        }
        // SAFETY: Triton gives places for the results.
        unsafe {
            *buffer = start.cast();
            *buffer_data = null_mut();
            *memory = sys::MEMORY_CPU;
            *device = 0;
        }
        Ok(())
    })
}

/// # Safety
///
/// As Triton calls an allocator's function, with what `on_allocate` has given.
unsafe extern "C" fn on_deallocate(
    _allocator: *mut ResponseAllocator,
    buffer: *mut c_void,
    _data: *mut c_void,
    len: usize,
    _memory: c_int,
    _device: i64,
) -> *mut Error {
    if let Some(layout) = layout(len).filter(|_| !buffer.is_null()) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(buffer.cast(), layout) };
    }
    null_mut()
}

//! Responses of models, for Triton.

use crate::datatype;
use crate::error::{self, Result, c_text};
use crate::parameter::Setters;
use crate::sys::{self, Output, Response, ResponseFactory, core};
use hydrozoa_models::{Code, Event, Failure};
use std::ptr::null_mut;

/// Makes the responses of a request, also after the request was released.
pub(crate) struct Factory(*mut ResponseFactory);

// SAFETY: any thread may make responses, one at a time. `Work::respond` is called by one thread at a time, and asking for a
// cancel goes with any.
unsafe impl Send for Factory {}
// SAFETY: as above.
unsafe impl Sync for Factory {}

impl Factory {
    /// # Safety
    ///
    /// The request is valid.
    pub(crate) unsafe fn new(request: *mut sys::Request) -> Result<Self> {
        // SAFETY: as the caller vouches.
        unsafe {
            let new = core().TRITONBACKEND_ResponseFactoryNew;
            error::pointer(|place| new(place, request)).map(Self)
        }
    }

    /// Whether the client has gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: the factory is valid.
        let answer = unsafe {
            let ask = core().TRITONBACKEND_ResponseFactoryIsCancelled;
            error::value(|place| ask(self.0, place))
        };
        answer.unwrap_or(false)
    }

    /// Sends what an event has. Whether the client gets no error.
    pub(crate) fn send(&self, event: Event) -> bool {
        let flags = if event.is_final { sys::FINAL } else { 0 };
        let sent = match event.response {
            // SAFETY: the factory is valid.
            None => unsafe {
                error::check((core().TRITONBACKEND_ResponseFactorySendFlags)(self.0, flags))
                    .map(|()| true)
            },
            Some(response) => self.respond(response, flags),
        };
        sent.unwrap_or_else(|failure| {
            tracing::error!("a response could not be sent: {failure}");
            false
        })
    }

    fn respond(&self, response: Result<hydrozoa_models::Response>, flags: u32) -> Result<bool> {
        // SAFETY: the factory is valid. The response is new, and Triton has it from `ResponseSend` on. The error is deleted
        // by who has made it.
        unsafe {
            let new = core().TRITONBACKEND_ResponseNewFromFactory;
            let target = error::pointer(|place| new(place, self.0))?;
            let failed = response.and_then(|response| fill(target, &response)).err();
            let error = failed.as_ref().map_or(null_mut(), error::new);
            let sent = (core().TRITONBACKEND_ResponseSend)(target, flags, error);
            if !error.is_null() {
                (core().TRITONSERVER_ErrorDelete)(error);
            }
            error::check(sent)?;
            Ok(failed.is_none())
        }
    }
}

impl Drop for Factory {
    fn drop(&mut self) {
        // SAFETY: it is deleted once.
        unsafe {
            let error = (core().TRITONBACKEND_ResponseFactoryDelete)(self.0);
            error::log("the end of a request's responses", error);
        }
    }
}

/// # Safety
///
/// The response is valid and new.
unsafe fn fill(target: *mut Response, response: &hydrozoa_models::Response) -> Result<()> {
    let core = core();
    let setters = Setters {
        text: core.TRITONBACKEND_ResponseSetStringParameter,
        int: core.TRITONBACKEND_ResponseSetIntParameter,
        bool: core.TRITONBACKEND_ResponseSetBoolParameter,
        double: core.TRITONBACKEND_ResponseSetDoubleParameter,
    };
    // SAFETY: as the caller vouches.
    unsafe {
        setters.set(target, &response.parameters)?;
        response.outputs.iter().try_for_each(|output| write(target, output))
    }
}

/// # Safety
///
/// The response is valid.
unsafe fn write(target: *mut Response, output: &hydrozoa_models::Output) -> Result<()> {
    let (name, shape) = (c_text(&output.name)?, &output.shape);
    let kind = datatype::number(output.data_type);
    let (mut buffer, mut memory, mut device) = (null_mut(), sys::MEMORY_CPU, 0);
    // SAFETY: as the caller vouches. Triton copies name and shape, and gives a buffer of so many bytes.
    unsafe {
        let new = core().TRITONBACKEND_ResponseOutput;
        let dims = shape.len() as u32;
        let made: *mut Output =
            error::pointer(|place| new(target, place, name.as_ptr(), kind, shape.as_ptr(), dims))?;
        let data = &output.data;
        let get = core().TRITONBACKEND_OutputBuffer;
        let size = data.len() as u64;
        error::check(get(made, &raw mut buffer, size, &raw mut memory, &raw mut device))?;
        if memory == sys::MEMORY_GPU {
            let words = format!(
                "output '{}' is wanted in memory of GPU {device}; this backend gives outputs in memory of the processor",
                output.name
            );
            return Err(Failure::new(Code::Unsupported, words));
        }
        if !data.is_empty() {
            std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.cast::<u8>(), data.len());
        }
    }
    Ok(())
}

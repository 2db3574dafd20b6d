//! The part of Triton's core that the backend calls: the C interface of `tritonserver.h` and `tritonbackend.h`
//! (github.com/triton-inference-server/core, include/triton/core).
//!
//! Functions are looked up in the process, and not linked: the library that has them is named differently from build to
//! build, and a program may have loaded it for itself alone. A server that lacks one is refused with the function's name.

#![allow(non_snake_case, reason = "these are the names that Triton's headers have")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Structures that only Triton looks into.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[repr(C)]
            pub(crate) struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! {
    Error Message Server Parameter Metric MetricFamily MetricArgs
    Backend Model Instance Attribute Request Input Output Response ResponseFactory
    InferenceRequest InferenceResponse ResponseAllocator InferenceTrace
}

/// The major version of the backend's interface (`TRITONBACKEND_API_VERSION_MAJOR`). Another one is another interface.
pub(crate) const MAJOR: u32 = 1;

pub(crate) const FINAL: u32 = 1;
pub(crate) const RELEASE_ALL: u32 = 1;
pub(crate) const DECOUPLED: u32 = 2;

pub(crate) const MEMORY_GPU: c_int = 2;
pub(crate) const MEMORY_CPU: c_int = 0;

pub(crate) const PARAMETER_STRING: c_int = 0;
pub(crate) const PARAMETER_INT: c_int = 1;
pub(crate) const PARAMETER_BOOL: c_int = 2;
pub(crate) const PARAMETER_DOUBLE: c_int = 3;

pub(crate) const KIND_GPU: c_int = 2;
pub(crate) const KIND_MODEL: c_int = 3;

/// `TRITONSERVER_ResponseAllocatorAllocFn_t`
pub(crate) type Allocate = unsafe extern "C" fn(
    *mut ResponseAllocator,
    *const c_char,
    usize,
    c_int,
    i64,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
    *mut c_int,
    *mut i64,
) -> *mut Error;

/// `TRITONSERVER_ResponseAllocatorReleaseFn_t`
pub(crate) type Deallocate = unsafe extern "C" fn(
    *mut ResponseAllocator,
    *mut c_void,
    *mut c_void,
    usize,
    c_int,
    i64,
) -> *mut Error;

/// `TRITONSERVER_InferenceRequestReleaseFn_t`
pub(crate) type Released = unsafe extern "C" fn(*mut InferenceRequest, u32, *mut c_void);

/// `TRITONSERVER_InferenceResponseCompleteFn_t`
pub(crate) type Completed = unsafe extern "C" fn(*mut InferenceResponse, u32, *mut c_void);

macro_rules! functions {
    ($(fn $name:ident($($type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The functions, by their names.
        pub(crate) struct Core {
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Core {
            /// # Safety
            ///
            /// `find` gives the addresses of Triton's functions, or null.
            unsafe fn of(find: impl Fn(&CStr) -> *mut c_void) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let address = find(
                            CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes())
                                .expect("an identifier has no NUL"),
                        );
                        if address.is_null() {
                            return Err(stringify!($name).to_owned());
                        }
                        // SAFETY: it is the function of this name, and the header declares it so.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($type),*) $(-> $result)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

type Text = *const c_char;
type Fallible = *mut Error;

functions! {
    fn TRITONSERVER_ErrorNew(c_int, Text) -> Fallible;
    fn TRITONSERVER_ErrorDelete(*mut Error);
    fn TRITONSERVER_ErrorCode(*mut Error) -> c_int;
    fn TRITONSERVER_ErrorMessage(*mut Error) -> Text;
    fn TRITONSERVER_LogIsEnabled(c_int) -> bool;
    fn TRITONSERVER_LogMessage(c_int, Text, c_int, Text) -> Fallible;
    fn TRITONSERVER_MessageNewFromSerializedJson(*mut *mut Message, Text, usize) -> Fallible;
    fn TRITONSERVER_MessageSerializeToJson(*mut Message, *mut Text, *mut usize) -> Fallible;
    fn TRITONSERVER_MessageDelete(*mut Message) -> Fallible;
    fn TRITONSERVER_ParameterNew(Text, c_int, *const c_void) -> *mut Parameter;
    fn TRITONSERVER_ParameterBytesNew(Text, *const c_void, u64) -> *mut Parameter;
    fn TRITONSERVER_ParameterDelete(*mut Parameter);

    fn TRITONBACKEND_ApiVersion(*mut u32, *mut u32) -> Fallible;
    fn TRITONBACKEND_BackendConfig(*mut Backend, *mut *mut Message) -> Fallible;
    fn TRITONBACKEND_BackendState(*mut Backend, *mut *mut c_void) -> Fallible;
    fn TRITONBACKEND_BackendSetState(*mut Backend, *mut c_void) -> Fallible;
    fn TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(*mut Attribute, bool) -> Fallible;

    fn TRITONBACKEND_ModelName(*mut Model, *mut Text) -> Fallible;
    fn TRITONBACKEND_ModelVersion(*mut Model, *mut u64) -> Fallible;
    fn TRITONBACKEND_ModelRepository(*mut Model, *mut c_int, *mut Text) -> Fallible;
    fn TRITONBACKEND_ModelConfig(*mut Model, u32, *mut *mut Message) -> Fallible;
    fn TRITONBACKEND_ModelAutoCompleteConfig(*mut Model, *mut bool) -> Fallible;
    fn TRITONBACKEND_ModelSetConfig(*mut Model, u32, *mut Message) -> Fallible;
    fn TRITONBACKEND_ModelServer(*mut Model, *mut *mut Server) -> Fallible;
    fn TRITONBACKEND_ModelBackend(*mut Model, *mut *mut Backend) -> Fallible;
    fn TRITONBACKEND_ModelState(*mut Model, *mut *mut c_void) -> Fallible;
    fn TRITONBACKEND_ModelSetState(*mut Model, *mut c_void) -> Fallible;

    fn TRITONBACKEND_ModelInstanceName(*mut Instance, *mut Text) -> Fallible;
    fn TRITONBACKEND_ModelInstanceKind(*mut Instance, *mut c_int) -> Fallible;
    fn TRITONBACKEND_ModelInstanceDeviceId(*mut Instance, *mut i32) -> Fallible;
    fn TRITONBACKEND_ModelInstanceModel(*mut Instance, *mut *mut Model) -> Fallible;
    fn TRITONBACKEND_ModelInstanceState(*mut Instance, *mut *mut c_void) -> Fallible;
    fn TRITONBACKEND_ModelInstanceSetState(*mut Instance, *mut c_void) -> Fallible;
    fn TRITONBACKEND_ModelInstanceReportStatistics(*mut Instance, *mut Request, bool, u64, u64, u64, u64) -> Fallible;
    fn TRITONBACKEND_ModelInstanceReportBatchStatistics(*mut Instance, u64, u64, u64, u64, u64) -> Fallible;

    fn TRITONBACKEND_RequestId(*mut Request, *mut Text) -> Fallible;
    fn TRITONBACKEND_RequestCorrelationId(*mut Request, *mut u64) -> Fallible;
    fn TRITONBACKEND_RequestCorrelationIdString(*mut Request, *mut Text) -> Fallible;
    fn TRITONBACKEND_RequestFlags(*mut Request, *mut u32) -> Fallible;
    fn TRITONBACKEND_InferenceRequestTimeoutMicroseconds(*mut Request, *mut u64) -> Fallible;
    fn TRITONBACKEND_RequestParameterCount(*mut Request, *mut u32) -> Fallible;
    fn TRITONBACKEND_RequestParameter(*mut Request, u32, *mut Text, *mut c_int, *mut *const c_void) -> Fallible;
    fn TRITONBACKEND_RequestInputCount(*mut Request, *mut u32) -> Fallible;
    fn TRITONBACKEND_RequestInputByIndex(*mut Request, u32, *mut *mut Input) -> Fallible;
    fn TRITONBACKEND_RequestOutputCount(*mut Request, *mut u32) -> Fallible;
    fn TRITONBACKEND_RequestOutputName(*mut Request, u32, *mut Text) -> Fallible;
    fn TRITONBACKEND_RequestRelease(*mut Request, u32) -> Fallible;
    fn TRITONBACKEND_InputProperties(*mut Input, *mut Text, *mut c_int, *mut *const i64, *mut u32, *mut u64, *mut u32) -> Fallible;
    fn TRITONBACKEND_InputBuffer(*mut Input, u32, *mut *const c_void, *mut u64, *mut c_int, *mut i64) -> Fallible;

    fn TRITONBACKEND_ResponseFactoryNew(*mut *mut ResponseFactory, *mut Request) -> Fallible;
    fn TRITONBACKEND_ResponseFactoryDelete(*mut ResponseFactory) -> Fallible;
    fn TRITONBACKEND_ResponseFactorySendFlags(*mut ResponseFactory, u32) -> Fallible;
    fn TRITONBACKEND_ResponseFactoryIsCancelled(*mut ResponseFactory, *mut bool) -> Fallible;
    fn TRITONBACKEND_ResponseNewFromFactory(*mut *mut Response, *mut ResponseFactory) -> Fallible;
    fn TRITONBACKEND_ResponseSetStringParameter(*mut Response, Text, Text) -> Fallible;
    fn TRITONBACKEND_ResponseSetIntParameter(*mut Response, Text, i64) -> Fallible;
    fn TRITONBACKEND_ResponseSetBoolParameter(*mut Response, Text, bool) -> Fallible;
    fn TRITONBACKEND_ResponseSetDoubleParameter(*mut Response, Text, f64) -> Fallible;
    fn TRITONBACKEND_ResponseOutput(*mut Response, *mut *mut Output, Text, c_int, *const i64, u32) -> Fallible;
    fn TRITONBACKEND_OutputBuffer(*mut Output, *mut *mut c_void, u64, *mut c_int, *mut i64) -> Fallible;
    fn TRITONBACKEND_ResponseSend(*mut Response, u32, *mut Error) -> Fallible;

    fn TRITONSERVER_InferenceRequestNew(*mut *mut InferenceRequest, *mut Server, Text, i64) -> Fallible;
    fn TRITONSERVER_InferenceRequestDelete(*mut InferenceRequest) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetId(*mut InferenceRequest, Text) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetFlags(*mut InferenceRequest, u32) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetCorrelationId(*mut InferenceRequest, u64) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetCorrelationIdString(*mut InferenceRequest, Text) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(*mut InferenceRequest, u64) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetStringParameter(*mut InferenceRequest, Text, Text) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetIntParameter(*mut InferenceRequest, Text, i64) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetBoolParameter(*mut InferenceRequest, Text, bool) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetDoubleParameter(*mut InferenceRequest, Text, f64) -> Fallible;
    fn TRITONSERVER_InferenceRequestAddInput(*mut InferenceRequest, Text, c_int, *const i64, u64) -> Fallible;
    fn TRITONSERVER_InferenceRequestAppendInputData(*mut InferenceRequest, Text, *const c_void, usize, c_int, i64) -> Fallible;
    fn TRITONSERVER_InferenceRequestAddRequestedOutput(*mut InferenceRequest, Text) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetReleaseCallback(*mut InferenceRequest, Released, *mut c_void) -> Fallible;
    fn TRITONSERVER_InferenceRequestSetResponseCallback(*mut InferenceRequest, *mut ResponseAllocator, *mut c_void, Completed, *mut c_void) -> Fallible;
    fn TRITONSERVER_InferenceRequestCancel(*mut InferenceRequest) -> Fallible;
    fn TRITONSERVER_ResponseAllocatorNew(*mut *mut ResponseAllocator, Allocate, Deallocate, *const c_void) -> Fallible;
    fn TRITONSERVER_InferenceResponseDelete(*mut InferenceResponse) -> Fallible;
    fn TRITONSERVER_InferenceResponseError(*mut InferenceResponse) -> Fallible;
    fn TRITONSERVER_InferenceResponseParameterCount(*mut InferenceResponse, *mut u32) -> Fallible;
    fn TRITONSERVER_InferenceResponseParameter(*mut InferenceResponse, u32, *mut Text, *mut c_int, *mut *const c_void) -> Fallible;
    fn TRITONSERVER_InferenceResponseOutputCount(*mut InferenceResponse, *mut u32) -> Fallible;
    fn TRITONSERVER_InferenceResponseOutput(*mut InferenceResponse, u32, *mut Text, *mut c_int, *mut *const i64, *mut u64, *mut *const c_void, *mut usize, *mut c_int, *mut i64, *mut *mut c_void) -> Fallible;
    fn TRITONSERVER_ServerInferAsync(*mut Server, *mut InferenceRequest, *mut InferenceTrace) -> Fallible;
    fn TRITONSERVER_ServerModelIsReady(*mut Server, Text, i64, *mut bool) -> Fallible;
    fn TRITONSERVER_ServerModelTransactionProperties(*mut Server, Text, i64, *mut u32, *mut *mut c_void) -> Fallible;
    fn TRITONSERVER_ServerLoadModel(*mut Server, Text) -> Fallible;
    fn TRITONSERVER_ServerLoadModelWithParameters(*mut Server, Text, *const *const Parameter, u64) -> Fallible;
    fn TRITONSERVER_ServerUnloadModel(*mut Server, Text) -> Fallible;
    fn TRITONSERVER_ServerUnloadModelAndDependents(*mut Server, Text) -> Fallible;

    fn TRITONSERVER_MetricFamilyNew(*mut *mut MetricFamily, c_int, Text, Text) -> Fallible;
    fn TRITONSERVER_MetricFamilyDelete(*mut MetricFamily) -> Fallible;
    fn TRITONSERVER_MetricArgsNew(*mut *mut MetricArgs) -> Fallible;
    fn TRITONSERVER_MetricArgsSetHistogram(*mut MetricArgs, *const f64, u64) -> Fallible;
    fn TRITONSERVER_MetricArgsDelete(*mut MetricArgs) -> Fallible;
    fn TRITONSERVER_MetricNew(*mut *mut Metric, *mut MetricFamily, *const *const Parameter, u64) -> Fallible;
    fn TRITONSERVER_MetricNewWithArgs(*mut *mut Metric, *mut MetricFamily, *const *const Parameter, u64, *const MetricArgs) -> Fallible;
    fn TRITONSERVER_MetricDelete(*mut Metric) -> Fallible;
    fn TRITONSERVER_MetricValue(*mut Metric, *mut f64) -> Fallible;
    fn TRITONSERVER_MetricIncrement(*mut Metric, f64) -> Fallible;
    fn TRITONSERVER_MetricSet(*mut Metric, f64) -> Fallible;
    fn TRITONSERVER_MetricObserve(*mut Metric, f64) -> Fallible;
}

static CORE: OnceLock<Core> = OnceLock::new();

/// The functions. `TRITONBACKEND_Initialize` has looked them up, and the server calls it before all others.
pub(crate) fn core() -> &'static Core {
    CORE.get().expect("TRITONBACKEND_Initialize comes first")
}

/// The handle of Triton's core among what is loaded, for `dlsym`. Null, which is `RTLD_DEFAULT`, if it is with the program's
/// own libraries, or nowhere.
fn library() -> *mut c_void {
    // SAFETY: the name is one of a function, and nothing is called.
    let everywhere = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"TRITONSERVER_ErrorNew".as_ptr()) };
    if !everywhere.is_null() {
        return libc::RTLD_DEFAULT;
    }
    // A program that embeds the server, such as Python with the module `tritonserver`, loads it for itself alone.
    let mut found: *mut c_void = std::ptr::null_mut();
    // SAFETY: the function keeps the rules of dl_iterate_phdr, and the pointer is its own type.
    unsafe { libc::dl_iterate_phdr(Some(by_name), (&raw mut found).cast()) };
    found
}

/// Takes an object whose name begins with `libtritonserver`.
///
/// # Safety
///
/// As `dl_iterate_phdr` calls it, with a `*mut *mut c_void` as data.
unsafe extern "C" fn by_name(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the C library gives a valid structure.
    let name = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the name of an object ends with NUL.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let file = text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if !file.starts_with(b"libtritonserver") {
        return 0;
    }
    // SAFETY: the name is valid. RTLD_NOLOAD runs no code.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // SAFETY: `library` passes a pointer to a pointer.
    unsafe { *data.cast::<*mut c_void>() = handle };
    c_int::from(!handle.is_null())
}

/// Looks up all functions, once for the process.
pub(crate) fn connect() -> Result<&'static Core, String> {
    if let Some(core) = CORE.get() {
        return Ok(core);
    }
    let library = library();
    // SAFETY: `library` has Triton's functions, or none of these names.
    let core = unsafe { Core::of(|name| libc::dlsym(library, name.as_ptr())) }?;
    Ok(CORE.get_or_init(|| core))
}

/// An error without the other functions, for a server that lacks one of them.
pub(crate) fn refuse(code: c_int, message: &CStr) -> *mut Error {
    // SAFETY: the name is one of a function, and nothing is called.
    let address = unsafe { libc::dlsym(library(), c"TRITONSERVER_ErrorNew".as_ptr()) };
    if address.is_null() {
        // Nobody could be told otherwise: null means success.
        eprintln!("the program that loaded this backend is not a Triton server: {message:?}");
        std::process::abort();
    }
    // SAFETY: it is the function of this name.
    let new: unsafe extern "C" fn(c_int, Text) -> *mut Error =
        unsafe { std::mem::transmute(address) };
    // SAFETY: the text ends with NUL.
    unsafe { new(code, message.as_ptr()) }
}

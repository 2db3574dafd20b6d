//! The backend: `TRITONBACKEND_Initialize` and its end.

use crate::error::{self, answer, refuse};
use crate::settings::Settings;
use crate::sys::{self, Attribute, Backend, Error, core};
use crate::{log, state};
use hydrozoa_models::{Code, Failure};

/// # Safety
///
/// Triton calls it, before all other functions of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_Initialize(backend: *mut Backend) -> *mut Error {
    if let Err(missing) = sys::connect() {
        let words =
            format!("this backend needs a later Triton: the server has no function {missing}");
        return refuse(Code::Unsupported, &words);
    }
    answer(|| {
        let core = core();
        // SAFETY: Triton gives a valid backend, and keeps its state.
        unsafe {
            let (mut major, mut minor) = (0, 0);
            error::check((core.TRITONBACKEND_ApiVersion)(&raw mut major, &raw mut minor))?;
            if major != sys::MAJOR {
                let words = format!(
                    "this backend is for version {} of the backend interface, and the server has {major}.{minor}",
                    sys::MAJOR
                );
                return Err(Failure::new(Code::Unsupported, words));
            }
            log::begin();
            let config =
                error::pointer(|place| (core.TRITONBACKEND_BackendConfig)(backend, place))?;
            let config = state::parse(&state::json(config)?, "the backend's configuration")?;
            let settings = Settings::of(&config);
            state::keep(settings, |kept| (core.TRITONBACKEND_BackendSetState)(backend, kept))
        }
    })
}

/// # Safety
///
/// Triton calls it, after all models have ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_Finalize(backend: *mut Backend) -> *mut Error {
    answer(|| {
        // SAFETY: the state is that of `TRITONBACKEND_Initialize`.
        let settings = unsafe {
            state::take::<Settings>(
                |place| (core().TRITONBACKEND_BackendState)(backend, place),
                |kept| (core().TRITONBACKEND_BackendSetState)(backend, kept),
            )
        }?;
        drop(settings);
        Ok(())
    })
}

/// # Safety
///
/// Triton calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_GetBackendAttribute(
    _backend: *mut Backend,
    attribute: *mut Attribute,
) -> *mut Error {
    answer(|| {
        // SAFETY: Triton gives a valid object. Interpreters start beside each other.
        unsafe {
            let set = core().TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading;
            error::check(set(attribute, true))
        }
    })
}

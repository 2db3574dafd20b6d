//! Parameters of requests and responses.

use crate::error::{self, Result, c_text};
use crate::sys::{self, Error, core};
use hydrozoa_models::{Code, Failure, Parameter, Parameters};
use std::ffi::{CStr, c_char, c_int, c_void};

/// A function that gives a parameter's name, type and value by its number.
type Get<'a> = &'a dyn Fn(u32, *mut *const c_char, *mut c_int, *mut *const c_void) -> *mut Error;

/// All parameters, by the functions that count and give them.
///
/// # Safety
///
/// Both keep the rules of the functions of Triton's that they call, and what is given lives until this returns.
pub(crate) unsafe fn all(
    count: impl FnOnce(*mut u32) -> *mut Error,
    get: Get<'_>,
) -> Result<Parameters> {
    // SAFETY: as the caller vouches.
    let count = unsafe { error::value(count) }?;
    let one = |index| {
        let (mut name, mut kind, mut value) = (std::ptr::null(), 0, std::ptr::null());
        // SAFETY: as the caller vouches. The value is of the type that is given with it.
        unsafe {
            error::check(get(index, &raw mut name, &raw mut kind, &raw mut value))?;
            let name = error::text(name);
            let value = read(kind, value).ok_or_else(|| {
                let words = format!("Unsupported parameter type for parameter '{name}'.");
                Failure::new(Code::InvalidArgument, words)
            })?;
            Ok((name, value))
        }
    };
    (0..count).map(one).collect()
}

/// # Safety
///
/// The value is of this type, and not null.
unsafe fn read(kind: c_int, value: *const c_void) -> Option<Parameter> {
    // SAFETY: as the caller vouches.
    unsafe {
        Some(match kind {
            sys::PARAMETER_STRING => Parameter::Text(error::text(value.cast())),
            sys::PARAMETER_INT => Parameter::Int(value.cast::<i64>().read()),
            sys::PARAMETER_BOOL => Parameter::Bool(value.cast::<u8>().read() != 0),
            sys::PARAMETER_DOUBLE => Parameter::Double(value.cast::<f64>().read()),
            _ => return None,
        })
    }
}

/// The functions that set a parameter of each type.
pub(crate) struct Setters<T> {
    pub(crate) text: unsafe extern "C" fn(*mut T, *const c_char, *const c_char) -> *mut Error,
    pub(crate) int: unsafe extern "C" fn(*mut T, *const c_char, i64) -> *mut Error,
    pub(crate) bool: unsafe extern "C" fn(*mut T, *const c_char, bool) -> *mut Error,
    pub(crate) double: unsafe extern "C" fn(*mut T, *const c_char, f64) -> *mut Error,
}

impl<T> Setters<T> {
    /// Sets all parameters of a request or response.
    ///
    /// # Safety
    ///
    /// The object is valid, and the functions are for its kind.
    pub(crate) unsafe fn set(&self, object: *mut T, parameters: &Parameters) -> Result<()> {
        for (name, value) in parameters {
            let name = c_text(name)?;
            // SAFETY: as the caller vouches; Triton copies texts.
            unsafe { error::check(self.one(object, &name, value)?) }?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for [`Setters::set`].
    unsafe fn one(&self, object: *mut T, name: &CStr, value: &Parameter) -> Result<*mut Error> {
        let name = name.as_ptr();
        // SAFETY: as the caller vouches.
        Ok(unsafe {
            match value {
                Parameter::Text(value) => (self.text)(object, name, c_text(value)?.as_ptr()),
                Parameter::Int(value) => (self.int)(object, name, *value),
                Parameter::Bool(value) => (self.bool)(object, name, *value),
                Parameter::Double(value) => (self.double)(object, name, *value),
                _ => return Err(Failure::new(Code::Unsupported, "a parameter of this type")),
            }
        })
    }
}

/// Parameters for a function of Triton's. They are deleted with this.
#[derive(Default)]
pub(crate) struct Made(Vec<*const sys::Parameter>);

impl Made {
    pub(crate) fn text(&mut self, name: &str, value: &str) -> Result<()> {
        let (name, value) = (c_text(name)?, c_text(value)?);
        let new = core().TRITONSERVER_ParameterNew;
        // SAFETY: both end with NUL, and Triton copies them.
        let made = unsafe { new(name.as_ptr(), sys::PARAMETER_STRING, value.as_ptr().cast()) };
        self.0.push(made);
        Ok(())
    }

    /// Bytes that must outlive this: Triton does not copy them.
    pub(crate) fn bytes(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let name = c_text(name)?;
        let new = core().TRITONSERVER_ParameterBytesNew;
        // SAFETY: the name ends with NUL, and there are so many bytes.
        let made = unsafe { new(name.as_ptr(), value.as_ptr().cast(), value.len() as u64) };
        self.0.push(made);
        Ok(())
    }

    pub(crate) fn all(&self) -> &[*const sys::Parameter] {
        &self.0
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for parameter in &self.0 {
            // SAFETY: each is deleted once.
            unsafe { (core().TRITONSERVER_ParameterDelete)(parameter.cast_mut()) };
        }
    }
}

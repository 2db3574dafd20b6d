//! glibc's own loader in this process.

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::Path;

/// `dlopen`. The error is glibc's text.
pub(crate) fn open(path: &Path, flags: c_int) -> Result<*mut c_void, String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: a NUL-terminated name; constructors run, as intended.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if handle.is_null() {
        // SAFETY: after a failure dlerror returns a string.
        return Err(unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned());
    }
    Ok(handle)
}

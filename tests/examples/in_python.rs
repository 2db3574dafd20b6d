//! A library that a running python loads by ctypes, and that starts interpreters in that python's process.

use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;

use hydrozoa::{Pool, Result};

/// Starts two interpreters of the Python at `python`, each of which runs `code` in turns with the other, and ends
/// them. Returns 0, or prints the error and returns 1.
///
/// # Safety
///
/// `python` and `code` are texts that end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn run_in_a_pool(python: *const c_char, code: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let [python, code] = unsafe { [CStr::from_ptr(python), CStr::from_ptr(code)] };
    match run(python, &code.to_string_lossy()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error:?}");
            1
        }
    }
}

fn run(python: &CStr, code: &str) -> Result<()> {
    let python = PathBuf::from(python.to_string_lossy().into_owned());
    let pool = Pool::builder().venv(python).interpreters(2).build()?;
    for _ in 0..2 {
        for index in 0..2 {
            pool.acquire_on(index)?.run(code, "in a pool")?;
        }
    }
    Ok(())
}

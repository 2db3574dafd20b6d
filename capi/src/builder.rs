//! The settings of a pool.

use crate::boundary::guarded;
use crate::error::hz_error;
use crate::failure::{Failure, Result};
use crate::pointers::{array, exclusive, free, os_text, path, place, reference, text};
use crate::pool::hz_pool;
use crate::status::hz_status;
use runtime::{Builder, ImportProfile, Imports, Pool};
use std::ffi::{OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The settings of a pool. One thread uses it at a time.
pub struct hz_builder(Builder);

/// Changes a setting.
///
/// # Safety
///
/// The pointers are as the header demands.
unsafe fn change(
    builder: *mut hz_builder,
    error: *mut *mut hz_error,
    setting: impl FnOnce(Builder) -> Result<Builder>,
) -> hz_status {
    // SAFETY: as the caller vouches.
    unsafe {
        guarded(error, || {
            let builder = exclusive(builder, "builder")?;
            builder.0 = setting(builder.0.clone())?;
            Ok(())
        })
    }
}

/// The default settings. The caller owns the result. NULL only if memory is exhausted.
#[unsafe(no_mangle)]
pub extern "C" fn hz_builder_new() -> *mut hz_builder {
    let made =
        catch_unwind(AssertUnwindSafe(|| Box::into_raw(Box::new(hz_builder(Pool::builder())))));
    made.unwrap_or(ptr::null_mut())
}

/// The number of interpreters. The default is one for each processor that the process may use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_interpreters(
    builder: *mut hz_builder,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.interpreters(count))) }
}

/// The most sessions that each interpreter has at a time; hz_pool_acquire then waits. 0 is no limit, the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_max_sessions(
    builder: *mut hz_builder,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.max_sessions(count))) }
}

/// The Python: a libpython3.X.so, a python executable, the prefix of an installation, the directory of a virtual
/// environment, or a version such as "3.12". The default is the best that is found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_python(
    builder: *mut hz_builder,
    python: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.python(path(python, "python")?))) }
}

/// A virtual environment whose packages the interpreters see. Without hz_builder_python it also chooses the Python.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_venv(
    builder: *mut hz_builder,
    directory: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.venv(path(directory, "directory")?))) }
}

/// Adds a directory to the front of `sys.path`, after those of earlier calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_path(
    builder: *mut hz_builder,
    directory: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.path(path(directory, "directory")?))) }
}

/// `sys.argv`. The default is one empty string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_arguments(
    builder: *mut hz_builder,
    arguments: *const *const c_char,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        change(builder, error, |builder| {
            let arguments = array(arguments, count, "arguments")?;
            let arguments = arguments.iter().map(|&argument| text(argument, "an argument"));
            Ok(builder.arguments(arguments.collect::<Result<Vec<_>>>()?))
        })
    }
}

/// Gives each interpreter environment variables of its own, and nothing of the process's: `count` texts of the form
/// NAME=VALUE. docs/c.md says which libraries still read the process's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_environment(
    builder: *mut hz_builder,
    variables: *const *const c_char,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        change(builder, error, |builder| {
            let variables = array(variables, count, "variables")?;
            let variables =
                variables.iter().map(|&variable| pair(os_text(variable, "a variable")?));
            Ok(builder.environment(variables.collect::<Result<Vec<_>>>()?))
        })
    }
}

/// A variable and its value.
fn pair(text: &OsStr) -> Result<(OsString, OsString)> {
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().position(|&byte| byte == b'=') else {
        return Err(Failure::argument(format!("{text:?} is no variable: it has no '='")));
    };
    let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    Ok((part(&bytes[..at]), part(&bytes[at + 1..])))
}

/// Native libraries whose path matches the pattern exist once for all interpreters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_share(
    builder: *mut hz_builder,
    pattern: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.share(text(pattern, "pattern")?))) }
}

/// Each interpreter has a replica of native libraries whose path matches the pattern.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_replicate(
    builder: *mut hz_builder,
    pattern: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.replicate(text(pattern, "pattern")?))) }
}

/// The most memory, in bytes, that the Python code of each interpreter may take; more is a MemoryError. 0 is no limit,
/// the default. Memory that native code takes from malloc does not count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_memory_limit(
    builder: *mut hz_builder,
    bytes: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.memory_limit(bytes))) }
}

/// Imports modules when they are used, as the profile in the file says (docs/imports.md).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_import_profile(
    builder: *mut hz_builder,
    file: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        change(builder, error, |builder| {
            let profile = ImportProfile::load(path(file, "file")?)?;
            Ok(builder.imports(Imports::Profile(profile)))
        })
    }
}

/// The directory, on a local disk, in which hz_pool_settle puts memory of interpreters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_settle_in(
    builder: *mut hz_builder,
    directory: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        change(builder, error, |builder| Ok(builder.settle_in(path(directory, "directory")?)))
    }
}

/// The optimisation level, as `python -O` (1) and `-OO` (2). The default is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_optimize(
    builder: *mut hz_builder,
    level: u8,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.optimize(level))) }
}

/// The seed of hashes of str and bytes, as PYTHONHASHSEED. By default each interpreter has a random one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_hash_seed(
    builder: *mut hz_builder,
    seed: u32,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.hash_seed(seed))) }
}

/// Whether `sys.stdout` and `sys.stderr` write at once, as `python -u`. The default is no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_unbuffered(
    builder: *mut hz_builder,
    unbuffered: bool,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.unbuffered(unbuffered))) }
}

/// Adds an option of the implementation, as `python -X`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_x_option(
    builder: *mut hz_builder,
    option: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.x_option(os_text(option, "option")?))) }
}

/// Whether the pool replaces an interpreter whose call goes on although it was interrupted. The default is no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_replace_stuck(
    builder: *mut hz_builder,
    replace: bool,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { change(builder, error, |builder| Ok(builder.replace_stuck(replace))) }
}

/// Starts the interpreters. The caller owns `pool`, and keeps the builder, which may build more pools.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_build(
    builder: *const hz_builder,
    pool: *mut *mut hz_pool,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(pool, "pool")?;
            let builder = reference(builder, "builder")?;
            out.put(hz_pool(builder.0.clone().build()?));
            Ok(())
        })
    }
}

/// Frees the settings. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_free(builder: *mut hz_builder) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(builder) }
}

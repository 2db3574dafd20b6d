//! The settings of a pool.

use super::pool::hz_pool;
use crate::boundary::{
    Failure, Result, array, fill, free, given, guarded, hz_error, hz_status, os_text, path, text,
};
use runtime::{Builder, ImportProfile, Imports, Pool};
use std::ffi::{OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;

/// The settings of a pool. One thread uses it at a time.
pub struct hz_builder(Builder);

fn change(
    builder: Option<&mut hz_builder>,
    setting: impl FnOnce(Builder) -> Result<Builder>,
) -> Result<()> {
    let builder = given(builder, "builder")?;
    builder.0 = setting(builder.0.clone())?;
    Ok(())
}

/// The default settings. The caller owns the result.
#[unsafe(no_mangle)]
pub extern "C" fn hz_builder_new() -> Box<hz_builder> {
    Box::new(hz_builder(Pool::builder()))
}

/// The number of interpreters. The default is one for each processor that the process may use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_interpreters(
    builder: Option<&mut hz_builder>,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.interpreters(count))))
}

/// The most sessions on each interpreter at a time; beyond that hz_pool_acquire waits. 0, the default, means unlimited.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_max_sessions(
    builder: Option<&mut hz_builder>,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.max_sessions(count))))
}

/// The Python: a libpython3.X.so, a python executable, the prefix of an installation, the directory of a virtual
/// environment, or a version such as "3.12". The default is the best that is found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_python(
    builder: Option<&mut hz_builder>,
    python: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.python(path(python, "python")?))))
}

/// A virtual environment whose packages the interpreters see. Without hz_builder_python it also chooses the Python.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_venv(
    builder: Option<&mut hz_builder>,
    directory: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.venv(path(directory, "directory")?))))
}

/// Adds a directory to the front of `sys.path`, after those of earlier calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_path(
    builder: Option<&mut hz_builder>,
    directory: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.path(path(directory, "directory")?))))
}

/// `sys.argv`. The default is one empty string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_arguments(
    builder: Option<&mut hz_builder>,
    arguments: *const *const c_char,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(
        error,
        change(builder, |builder| {
            let arguments = array(arguments, count, "arguments")?;
            let arguments = arguments.iter().map(|&argument| text(argument, "an argument"));
            Ok(builder.arguments(arguments.collect::<Result<Vec<_>>>()?))
        })
    )
}

/// Gives each interpreter environment variables of its own, and none of the process's: `count` texts of the form
/// NAME=VALUE. docs/c.md says which libraries still read the process's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_environment(
    builder: Option<&mut hz_builder>,
    variables: *const *const c_char,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(
        error,
        change(builder, |builder| {
            let variables = array(variables, count, "variables")?;
            let variables =
                variables.iter().map(|&variable| pair(os_text(variable, "a variable")?));
            Ok(builder.environment(variables.collect::<Result<Vec<_>>>()?))
        })
    )
}

/// A variable and its value.
fn pair(text: &OsStr) -> Result<(OsString, OsString)> {
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().position(|&byte| byte == b'=') else {
        return Err(Failure::argument(format!("{text:?} is not a variable: it has no '='")));
    };
    let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    Ok((part(&bytes[..at]), part(&bytes[at + 1..])))
}

/// Native libraries whose path matches the pattern exist once for all interpreters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_share(
    builder: Option<&mut hz_builder>,
    pattern: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.share(text(pattern, "pattern")?))))
}

/// Each interpreter has a replica of native libraries whose path matches the pattern.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_replicate(
    builder: Option<&mut hz_builder>,
    pattern: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.replicate(text(pattern, "pattern")?))))
}

/// The most memory, in bytes, that the code of each interpreter may take; more is a MemoryError, or a null from malloc. 0, the
/// default, means unlimited. Memory that libraries take from malloc counts, the data of torch's tensors does not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_memory_limit(
    builder: Option<&mut hz_builder>,
    bytes: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.memory_limit(bytes))))
}

/// Imports modules when they are used, as the profile in the file says (docs/imports.md).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_import_profile(
    builder: Option<&mut hz_builder>,
    file: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(
        error,
        change(builder, |builder| {
            let profile = ImportProfile::load(path(file, "file")?)?;
            Ok(builder.imports(Imports::Profile(profile)))
        })
    )
}

/// The directory, on a local disk, in which hz_pool_settle puts memory of interpreters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_settle_in(
    builder: Option<&mut hz_builder>,
    directory: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.settle_in(path(directory, "directory")?))))
}

/// Settles each interpreter by itself in the directory, on a local disk, while nobody uses it: memory that it does not use moves to files
/// without names. The files hold copies of Python's memory, secrets included. Builder::dense of the Rust crate says when, and what it costs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_dense(
    builder: Option<&mut hz_builder>,
    directory: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.dense(path(directory, "directory")?))))
}

/// The optimisation level, as `python -O` (1) and `-OO` (2). The default is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_optimize(
    builder: Option<&mut hz_builder>,
    level: u8,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.optimize(level))))
}

/// The seed of hashes of str and bytes, as PYTHONHASHSEED. By default each interpreter has a random one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_hash_seed(
    builder: Option<&mut hz_builder>,
    seed: u32,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.hash_seed(seed))))
}

/// Whether `sys.stdout` and `sys.stderr` write at once, as with `python -u`. Off by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_unbuffered(
    builder: Option<&mut hz_builder>,
    unbuffered: bool,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.unbuffered(unbuffered))))
}

/// Adds an option of the implementation, as `python -X`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_x_option(
    builder: Option<&mut hz_builder>,
    option: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.x_option(os_text(option, "option")?))))
}

/// Whether the pool replaces an interpreter whose call ignores its interrupt. Off by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_replace_stuck(
    builder: Option<&mut hz_builder>,
    replace: bool,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.replace_stuck(replace))))
}

/// Whether a crash in an interpreter's native code is HZ_ERROR_CRASHED of the calls into it, where nothing that all share is
/// damaged (docs/hosting.md). Off by default: a crash ends the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_contain_crashes(
    builder: Option<&mut hz_builder>,
    contain: bool,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.contain_crashes(contain))))
}

/// Whether the pool replaces an interpreter that has crashed. On by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_replace_crashed(
    builder: Option<&mut hz_builder>,
    replace: bool,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, change(builder, |builder| Ok(builder.replace_crashed(replace))))
}

/// Starts the interpreters. The caller owns `pool`, and keeps the builder, which may build more pools.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_builder_build(
    builder: Option<&hz_builder>,
    pool: *mut *mut hz_pool,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(pool, "pool", || Ok(hz_pool(given(builder, "builder")?.0.clone().build()?)))
    })
}

/// Frees the settings. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_builder_free(builder: Option<Box<hz_builder>>) {
    free(builder);
}

//! Pools of interpreters.

use super::session::hz_session;
use crate::boundary::{fill, free, given, guarded, hz_error, hz_status, text};
use runtime::Pool;
use std::ffi::c_char;
use std::time::Duration;

/// A pool of interpreters. Any thread may use it, many at a time.
pub struct hz_pool(pub(crate) Pool);

/// Leases the least loaded interpreter to the calling thread. It waits only if the pool has a limit of sessions
/// (hz_builder_max_sessions). The caller owns `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_acquire(
    pool: Option<&hz_pool>,
    session: *mut *mut hz_session,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(session, "session", || Ok(hz_session::new(given(pool, "pool")?.0.acquire()?)))
    })
}

/// Leases an interpreter with fewer sessions than the pool's limit, or with none if the pool has no limit. Waits for one
/// at most for so long, and then returns HZ_ERROR_BUSY. 0 does not wait. The caller owns `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_acquire_timeout(
    pool: Option<&hz_pool>,
    milliseconds: u64,
    session: *mut *mut hz_session,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let limit = Duration::from_millis(milliseconds);
        fill(session, "session", || {
            Ok(hz_session::new(given(pool, "pool")?.0.acquire_timeout(limit)?))
        })
    })
}

/// Leases the interpreter at `index`, from 0. It never waits. The caller owns `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_acquire_on(
    pool: Option<&hz_pool>,
    index: usize,
    session: *mut *mut hz_session,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(session, "session", || Ok(hz_session::new(given(pool, "pool")?.0.acquire_on(index)?)))
    })
}

/// The number of interpreters. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_pool_size(pool: Option<&hz_pool>) -> usize {
    pool.map_or(0, |pool| pool.0.interpreters().len())
}

/// The second number of the Python's version: 12 for Python 3.12. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_pool_python_minor(pool: Option<&hz_pool>) -> u32 {
    pool.map_or(0, |pool| pool.0.python().minor().into())
}

/// Starts an interpreter and puts it in the place of the one at `index`, which ends when its last session does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_replace(
    pool: Option<&hz_pool>,
    index: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        drop(given(pool, "pool")?.0.replace(index)?);
        Ok(())
    })
}

/// Starts interpreters, or gives up those with the highest indexes, until the pool has `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_resize(
    pool: Option<&hz_pool>,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, Ok(given(pool, "pool")?.0.resize(count)?))
}

/// Makes a module of source code that all interpreters can import by its name, also those that start later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_register_module(
    pool: Option<&hz_pool>,
    name: *const c_char,
    source: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let pool = given(pool, "pool")?;
        Ok(pool.0.register_module(text(name, "name")?, text(source, "source")?)?)
    })
}

/// Moves memory of the interpreters to unnamed files in the directory of hz_builder_settle_in, one interpreter after the other.
/// The system reads a page back when it is used again; a page that is written becomes anonymous memory again. Call it once
/// the interpreters have done their usual work. `left`, which may be NULL, gets the number of their bytes that are still
/// anonymous. Calls wait while it runs. A running call keeps its interpreter from being settled: that is an error, and nothing
/// is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_settle(
    pool: Option<&hz_pool>,
    left: *mut u64,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let settled = given(pool, "pool")?.0.settle()?;
        if let Some(left) = left.as_mut() {
            *left = settled.iter().map(|one| one.anonymous).sum();
        }
        Ok(())
    })
}

/// Takes the pool, also if it fails, and waits at most for so long until its interpreters have ended. HZ_ERROR_IN_USE
/// names the object that still uses one; the interpreter ends by itself when that is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_close(
    pool: Option<Box<hz_pool>>,
    milliseconds: u64,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, Ok(given(pool, "pool")?.0.close(Duration::from_millis(milliseconds))?))
}

/// Gives the pool up. NULL is allowed. An interpreter ends when nothing uses it: no session, no buffer, no tensor of
/// hz_object_to_dlpack, no package and no movable. This waits for the end of those that nothing else uses.
#[unsafe(no_mangle)]
pub extern "C" fn hz_pool_free(pool: Option<Box<hz_pool>>) {
    free(pool);
}

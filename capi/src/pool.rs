//! Pools of interpreters.

use crate::boundary::guarded;
use crate::error::hz_error;
use crate::pointers::{free, place, reference, reference_or, take, text};
use crate::session::hz_session;
use crate::status::hz_status;
use runtime::Pool;
use std::ffi::c_char;
use std::time::Duration;

/// A pool of interpreters. Any thread may use it, many at a time.
pub struct hz_pool(pub(crate) Pool);

/// Leases the least loaded interpreter to the calling thread. It waits only if the pool has a limit of sessions
/// (hz_builder_max_sessions). The caller owns `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_acquire(
    pool: *const hz_pool,
    session: *mut *mut hz_session,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(session, "session")?;
            out.put(hz_session::new(reference(pool, "pool")?.0.acquire()?));
            Ok(())
        })
    }
}

/// Leases an interpreter that has fewer sessions than the pool's limit, or none if the pool has no limit. Waits for one
/// at most for so long, and then returns HZ_ERROR_BUSY. 0 does not wait. The caller owns `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_acquire_timeout(
    pool: *const hz_pool,
    milliseconds: u64,
    session: *mut *mut hz_session,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(session, "session")?;
            let limit = Duration::from_millis(milliseconds);
            out.put(hz_session::new(reference(pool, "pool")?.0.acquire_timeout(limit)?));
            Ok(())
        })
    }
}

/// Leases the interpreter at `index`, from 0. It never waits. The caller owns `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_acquire_on(
    pool: *const hz_pool,
    index: usize,
    session: *mut *mut hz_session,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(session, "session")?;
            out.put(hz_session::new(reference(pool, "pool")?.0.acquire_on(index)?));
            Ok(())
        })
    }
}

/// The number of interpreters. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_size(pool: *const hz_pool) -> usize {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(pool, 0, |pool| pool.0.interpreters().len()) }
}

/// The second number of the Python's version: 12 for Python 3.12. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_python_minor(pool: *const hz_pool) -> u32 {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(pool, 0, |pool| pool.0.python().minor().into()) }
}

/// Starts an interpreter and puts it in the place of the one at `index`, which ends when its last session does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_replace(
    pool: *const hz_pool,
    index: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            drop(reference(pool, "pool")?.0.replace(index)?);
            Ok(())
        })
    }
}

/// Starts interpreters, or gives up those with the highest indexes, until the pool has `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_resize(
    pool: *const hz_pool,
    count: usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { guarded(error, || Ok(reference(pool, "pool")?.0.resize(count)?)) }
}

/// Makes a module of source code that all interpreters can import by its name, also those that start later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_register_module(
    pool: *const hz_pool,
    name: *const c_char,
    source: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let pool = reference(pool, "pool")?;
            Ok(pool.0.register_module(text(name, "name")?, text(source, "source")?)?)
        })
    }
}

/// Moves memory of the interpreters to files without names in the directory of hz_builder_settle_in, one interpreter after
/// the other, from where the system reads what is used again. What is written becomes anonymous memory again.
/// Call it when the interpreters have done once what they are for. `left`, which may be NULL, gets how many of their
/// bytes are still anonymous. While it runs calls wait. A call that runs keeps its interpreter from it: an error, and nothing
/// is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_settle(
    pool: *const hz_pool,
    left: *mut u64,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let settled = reference(pool, "pool")?.0.settle()?;
            if let Some(left) = left.as_mut() {
                *left = settled.iter().map(|one| one.anonymous).sum();
            }
            Ok(())
        })
    }
}

/// Takes the pool, also if it fails, and waits at most for so long until its interpreters have ended. HZ_ERROR_IN_USE
/// says what still has one; it ends by itself when that is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_close(
    pool: *mut hz_pool,
    milliseconds: u64,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || Ok(take(pool, "pool")?.0.close(Duration::from_millis(milliseconds))?))
    }
}

/// Gives the pool up. NULL is allowed. An interpreter ends when nothing has it: no session, no buffer, no tensor of
/// hz_object_to_dlpack, no package and no movable. This waits for the end of those that nothing else has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_free(pool: *mut hz_pool) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(pool) }
}

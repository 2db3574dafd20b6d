//! Leases on interpreters.

use crate::boundary::guarded;
use crate::error::hz_error;
use crate::failure::{Failure, Result};
use crate::handle::hz_object;
use crate::interrupt::hz_interrupt_handle;
use crate::pointers::{free, place, place_or_none, reference, reference_or, text};
use crate::status::hz_status;
use crate::value::{Argument, hz_value};
use runtime::Session;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// A lease on one interpreter. The thread that has acquired it uses it; any thread may free it when no call on it runs.
///
/// A session keeps its interpreter alive. The objects of an interpreter are usable in each session on it.
pub struct hz_session {
    session: Session,
    thread: ThreadId,
    /// In milliseconds. 0 is none.
    limit: AtomicU64,
}

impl hz_session {
    /// The calling thread's.
    pub(crate) fn new(session: Session) -> Self {
        Self { session, thread: thread::current().id(), limit: AtomicU64::new(0) }
    }

    /// The session, on the thread that has acquired it.
    pub(crate) fn own(&self) -> Result<&Session> {
        if thread::current().id() == self.thread {
            return Ok(&self.session);
        }
        let interpreter = self.session.interpreter().name();
        Err(Failure::Misuse(
            hz_status::HZ_ERROR_THREAD,
            format!(
                "a session on {interpreter} was used by a thread that has not acquired it: acquire one on each thread, or \
                 pass objects and handles between threads"
            ),
        ))
    }

    /// Runs `action` in one turn of the interpreter's GIL, within the session's time limit.
    pub(crate) fn run<R>(&self, action: impl FnOnce(&Session) -> Result<R>) -> Result<R> {
        let session = self.own()?;
        let turn = || session.with_gil(|| action(session));
        match self.limit.load(Ordering::Relaxed) {
            0 => turn(),
            limit => session.with_deadline(Duration::from_millis(limit), turn),
        }
    }

    /// As [`hz_session::run`], for an action that gives an object.
    ///
    /// # Safety
    ///
    /// `out` is NULL or a place for a pointer.
    pub(crate) unsafe fn make(
        &self,
        out: *mut *mut hz_object,
        action: impl for<'s> FnOnce(&'s Session) -> Result<runtime::Object<'s>>,
    ) -> Result<()> {
        // SAFETY: as the caller vouches.
        let out = unsafe { place_or_none(out) };
        self.run(|session| {
            let object = action(session)?;
            if let Some(out) = out {
                out.put(hz_object::keep(&object));
            }
            Ok(())
        })
    }
}

/// Imports a module by its full name, as importlib.import_module does. The caller owns `module`, which may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_import(
    session: *const hz_session,
    name: *const c_char,
    module: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (own, name) = (reference(session, "session")?, text(name, "name")?);
            own.make(module, |session| Ok(session.import(name)?))
        })
    }
}

/// Runs the code of a module. `file_name` is what tracebacks show, and there need be no such file. The caller owns
/// `module`, which may be NULL. The module is in `sys.modules` while it or a function of it lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_run(
    session: *const hz_session,
    code: *const c_char,
    file_name: *const c_char,
    module: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let own = reference(session, "session")?;
            let (code, file_name) = (text(code, "code")?, text(file_name, "file_name")?);
            own.make(module, |session| Ok(session.run(code, file_name)?))
        })
    }
}

/// The value of one expression, in an empty namespace. The caller owns `value`, which may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_eval(
    session: *const hz_session,
    expression: *const c_char,
    value: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let own = reference(session, "session")?;
            let expression = text(expression, "expression")?;
            own.make(value, |session| Ok(session.eval(expression)?))
        })
    }
}

/// A Python object of a value. The caller owns `object`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_object(
    session: *const hz_session,
    value: *const hz_value,
    object: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(object, "object")?;
            let own = reference(session, "session")?;
            let value = Argument::of(reference(value, "value")?)?;
            own.run(|session| {
                out.put(hz_object::keep(&session.object_from(&value)?));
                Ok(())
            })
        })
    }
}

/// The most time that each later call on this session may take, in milliseconds. 0 is no limit, the default. Then
/// Python raises `_hydrozoa.interrupts.DeadlineExceeded`, a KeyboardInterrupt, within about 10 ms, and the call returns
/// HZ_ERROR_DEADLINE. The time in which it waits for the GIL counts. Native code is not interrupted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_set_time_limit(
    session: *const hz_session,
    milliseconds: u64,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let own = reference(session, "session")?;
            own.own()?;
            own.limit.store(milliseconds, Ordering::Relaxed);
            Ok(())
        })
    }
}

/// A handle by which other threads interrupt the calls of this session that begin from now on. The caller owns
/// `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_interrupt_handle(
    session: *const hz_session,
    handle: *mut *mut hz_interrupt_handle,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(handle, "handle")?;
            let session = reference(session, "session")?.own()?;
            out.put(hz_interrupt_handle(session.interrupt_handle()));
            Ok(())
        })
    }
}

/// The position of the session's interpreter in its pool, from 0. SIZE_MAX for NULL. Any thread may ask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_interpreter(session: *const hz_session) -> usize {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(session, usize::MAX, |session| session.session.interpreter().index()) }
}

/// Ends the lease. NULL is allowed. If nothing else has the interpreter, this waits for its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_free(session: *mut hz_session) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(session) }
}

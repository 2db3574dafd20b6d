//! Leases on interpreters.

use super::interrupt_handle::hz_interrupt_handle;
use crate::boundary::{
    Failure, Result, ResultSlot, fill, free, given, guarded, hz_error, hz_status, slot,
    slot_or_none, text,
};
use crate::values::{Argument, hz_object, hz_value};
use runtime::{Object, Session};
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
    /// In milliseconds. 0 means unlimited.
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
}

/// Runs `action` as [`hz_session::run`] does, and gives the caller the object, if it wants that.
pub(crate) fn object_in<'a>(
    session: Option<&hz_session>,
    out: impl Into<Option<ResultSlot<'a, hz_object>>>,
    action: impl for<'s> FnOnce(&'s Session) -> runtime::Result<Object<'s>>,
) -> Result<()> {
    given(session, "session")?.run(|session| {
        let object = action(session)?;
        if let Some(out) = out.into() {
            out.put(hz_object::keep(&object));
        }
        Ok(())
    })
}

/// Runs `action` on an object as [`hz_session::run`] does.
pub(crate) fn with_object<R>(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    action: impl FnOnce(&Object<'_>) -> runtime::Result<R>,
) -> Result<R> {
    let (object, session) = (given(object, "object")?, given(session, "session")?);
    session.run(|session| Ok(action(&object.handle().attach(session)?)?))
}

/// The same, and gives the caller the object that results, if it wants that.
pub(crate) fn object_of(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    out: Option<ResultSlot<'_, hz_object>>,
    action: impl for<'s> FnOnce(&Object<'s>) -> runtime::Result<Object<'s>>,
) -> Result<()> {
    let object = given(object, "object")?;
    object_in(session, out, |session| action(&object.handle().attach(session)?))
}

/// Whether code of the session's interpreter has crashed, and the crash was contained. Any thread may ask. False for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_session_has_crashed(session: Option<&hz_session>) -> bool {
    session.is_some_and(|session| session.session.interpreter().has_crashed())
}

/// Imports a module by its full name, as importlib.import_module does. The caller owns `module`, which may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_import(
    session: Option<&hz_session>,
    name: *const c_char,
    module: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (module, name) = (slot_or_none(module), text(name, "name")?);
        object_in(session, module, |session| session.import(name))
    })
}

/// Runs the code of a module. `file_name` is what tracebacks show, and there need be no such file. The caller owns
/// `module`, which may be NULL. The module is in `sys.modules` while it or a function of it lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_run(
    session: Option<&hz_session>,
    code: *const c_char,
    file_name: *const c_char,
    module: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let module = slot_or_none(module);
        let (code, file_name) = (text(code, "code")?, text(file_name, "file_name")?);
        object_in(session, module, |session| session.run(code, file_name))
    })
}

/// The value of one expression, in an empty namespace. The caller owns `value`, which may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_eval(
    session: Option<&hz_session>,
    expression: *const c_char,
    value: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (value, expression) = (slot_or_none(value), text(expression, "expression")?);
        object_in(session, value, |session| session.eval(expression))
    })
}

/// A Python object of a value. The caller owns `object`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_object(
    session: Option<&hz_session>,
    value: Option<&hz_value>,
    object: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let object = slot(object, "object")?;
        let value = Argument::of(given(value, "value")?)?;
        object_in(session, object, |session| session.object_from(&value))
    })
}

/// The most time that each later call on this session may take, in milliseconds. 0, the default, means unlimited. After it
/// Python raises `_hydrozoa.interrupts.DeadlineExceeded`, a KeyboardInterrupt, within about 10 ms, and the call returns
/// HZ_ERROR_DEADLINE. Time spent waiting for the GIL counts. Native code is not interrupted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_set_time_limit(
    session: Option<&hz_session>,
    milliseconds: u64,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let own = given(session, "session")?;
        own.own()?;
        own.limit.store(milliseconds, Ordering::Relaxed);
        Ok(())
    })
}

/// A handle by which other threads interrupt the calls of this session that begin from now on. The caller owns
/// `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_interrupt_handle(
    session: Option<&hz_session>,
    handle: *mut *mut hz_interrupt_handle,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(handle, "handle", || {
            Ok(hz_interrupt_handle(given(session, "session")?.own()?.interrupt_handle()))
        })
    })
}

/// The position of the session's interpreter in its pool, from 0. SIZE_MAX for NULL. Any thread may ask.
#[unsafe(no_mangle)]
pub extern "C" fn hz_session_interpreter(session: Option<&hz_session>) -> usize {
    session.map_or(usize::MAX, |session| session.session.interpreter().index())
}

/// Ends the lease. NULL is allowed. If nothing else uses the interpreter, this waits for its end.
#[unsafe(no_mangle)]
pub extern "C" fn hz_session_free(session: Option<Box<hz_session>>) {
    free(session);
}

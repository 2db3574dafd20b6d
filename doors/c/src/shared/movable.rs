//! Objects that every interpreter of a pool can use.

use super::numbered::{Numbered, Registry};
use crate::boundary::{fill, free, given, guarded, hz_error, hz_status, slot_or_none};
use crate::interpreters::{hz_session, object_in};
use crate::values::{Arguments, hz_keyword, hz_object, hz_plain, hz_value};
use runtime::{Movable, Value};
use std::sync::Arc;

/// An object that every interpreter of a pool can use. Each loads its own copy at its first use, and all copies share
/// the memory of their tensors and arrays. Any thread may use and free it. It keeps its pool.
pub struct hz_movable(Arc<Numbered<Movable>>);

/// All movables.
pub(crate) static MOVABLES: Registry<Movable> = Registry::new();

impl hz_movable {
    pub(crate) fn new(movable: Movable) -> Self {
        Self(MOVABLES.add(movable))
    }
}

/// Makes an object movable. It is pickled once; its functions and classes travel by name. The caller owns `movable`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_create_movable(
    session: Option<&hz_session>,
    object: Option<&hz_object>,
    movable: *mut *mut hz_movable,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(movable, "movable", || {
            let session = given(session, "session")?;
            let made = session.run(|own| {
                let object = given(object, "object")?.handle().attach(own)?;
                Ok(own.create_movable(&object)?)
            })?;
            Ok(hz_movable::new(made))
        })
    })
}

/// Calls `object(*arguments, **keywords)` on the least loaded interpreter of the pool, on the calling thread. The
/// caller owns `result`, a copy of what the call returns as of hz_object_to_plain. It may be NULL.
///
/// For results of other kinds, there are hz_movable_acquire, hz_movable_to_object and hz_object_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_movable_call(
    movable: Option<&hz_movable>,
    arguments: *const hz_value,
    argument_count: usize,
    keywords: *const hz_keyword,
    keyword_count: usize,
    result: *mut *mut hz_plain,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let out = slot_or_none(result);
        let movable = given(movable, "movable")?;
        let given = Arguments::new(arguments, argument_count, keywords, keyword_count)?;
        let value: Option<Value> = movable.0.with_object(|object| {
            let result = object.call_kwargs(given.positional(), given.named())?;
            out.is_some().then(|| result.extract()).transpose()
        })?;
        if let (Some(out), Some(value)) = (out, value) {
            out.put(hz_plain::new(value));
        }
        Ok(())
    })
}

/// A session on the least loaded interpreter, on one that has a copy if there is a choice. The caller owns `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_movable_acquire(
    movable: Option<&hz_movable>,
    session: *mut *mut hz_session,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(session, "session", || {
            Ok(hz_session::new(given(movable, "movable")?.0.acquire_session()?))
        })
    })
}

/// The copy of the session's interpreter, which is loaded at its first use there. The caller owns `object`, which may
/// be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_movable_to_object(
    movable: Option<&hz_movable>,
    session: Option<&hz_session>,
    object: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let object = slot_or_none(object);
        let movable = given(movable, "movable")?;
        object_in(session, object, |session| movable.0.to_object(session))
    })
}

/// Drops the copy of the session's interpreter. A later use loads it again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_movable_unload(
    movable: Option<&hz_movable>,
    session: Option<&hz_session>,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (movable, session) = (given(movable, "movable")?, given(session, "session")?);
        session.run(|session| {
            movable.0.unload(session);
            Ok(())
        })
    })
}

/// A number that no other movable of this process has or gets: hz_session_companion. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_movable_id(movable: Option<&hz_movable>) -> u64 {
    movable.map_or(0, |movable| movable.0.id())
}

/// Gives the movable up. NULL is allowed. Each interpreter drops its copy when it is next entered.
#[unsafe(no_mangle)]
pub extern "C" fn hz_movable_free(movable: Option<Box<hz_movable>>) {
    free(movable);
}

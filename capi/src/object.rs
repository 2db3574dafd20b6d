//! Python objects.

use crate::boundary::guarded;
use crate::bytes::hz_bytes;
use crate::error::hz_error;
use crate::failure::Result;
use crate::handle::hz_object;
use crate::plain::hz_plain;
use crate::pointers::{not_null, place, reference, text, write};
use crate::session::hz_session;
use crate::status::hz_status;
use crate::value::{Argument, Arguments, hz_keyword, hz_value};
use runtime::{FromPython, Object, Value};
use std::ffi::c_char;

/// Calls `object(*arguments, **keywords)`. `arguments` and `keywords` may be NULL if there are none. The caller owns
/// `result`, which may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_call(
    object: *const hz_object,
    session: *const hz_session,
    arguments: *const hz_value,
    argument_count: usize,
    keywords: *const hz_keyword,
    keyword_count: usize,
    result: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            let given = Arguments::new(arguments, argument_count, keywords, keyword_count)?;
            own.make(result, |session| {
                Ok(object
                    .handle()
                    .attach(session)?
                    .call_kwargs(given.positional(), given.named())?)
            })
        })
    }
}

/// Calls `object.method(*arguments, **keywords)`, as hz_object_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_call_method(
    object: *const hz_object,
    session: *const hz_session,
    method: *const c_char,
    arguments: *const hz_value,
    argument_count: usize,
    keywords: *const hz_keyword,
    keyword_count: usize,
    result: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            let method = text(method, "method")?;
            let given = Arguments::new(arguments, argument_count, keywords, keyword_count)?;
            own.make(result, |session| {
                let object = object.handle().attach(session)?;
                Ok(object.call_method_kwargs(method, given.positional(), given.named())?)
            })
        })
    }
}

/// `getattr(object, name)`. The caller owns `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_getattr(
    object: *const hz_object,
    session: *const hz_session,
    name: *const c_char,
    value: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            let name = text(name, "name")?;
            own.make(value, |session| Ok(object.handle().attach(session)?.getattr(name)?))
        })
    }
}

/// `setattr(object, name, value)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_setattr(
    object: *const hz_object,
    session: *const hz_session,
    name: *const c_char,
    value: *const hz_value,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            let name = text(name, "name")?;
            let value = Argument::of(reference(value, "value")?)?;
            own.run(|session| Ok(object.handle().attach(session)?.setattr(name, value)?))
        })
    }
}

/// `object[key]`. The caller owns `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_get_item(
    object: *const hz_object,
    session: *const hz_session,
    key: *const hz_value,
    value: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            let key = Argument::of(reference(key, "key")?)?;
            own.make(value, |session| Ok(object.handle().attach(session)?.get_item(key)?))
        })
    }
}

/// `object[key] = value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_set_item(
    object: *const hz_object,
    session: *const hz_session,
    key: *const hz_value,
    value: *const hz_value,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            let key = Argument::of(reference(key, "key")?)?;
            let value = Argument::of(reference(value, "value")?)?;
            own.run(|session| Ok(object.handle().attach(session)?.set_item(key, value)?))
        })
    }
}

/// `len(object)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_len(
    object: *const hz_object,
    session: *const hz_session,
    len: *mut usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { guarded(error, || asked(object, session, len, "len", |object| Ok(object.len()?))) }
}

/// `bool(object)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_truth(
    object: *const hz_object,
    session: *const hz_session,
    truth: *mut bool,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || asked(object, session, truth, "truth", |object| Ok(object.truth()?)))
    }
}

/// An `int`, or what has `__index__`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_int(
    object: *const hz_object,
    session: *const hz_session,
    value: *mut i64,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { guarded(error, || asked(object, session, value, "value", extract)) }
}

/// A `float`, or what has `__float__`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_float(
    object: *const hz_object,
    session: *const hz_session,
    value: *mut f64,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { guarded(error, || asked(object, session, value, "value", extract)) }
}

/// The text of a `str` as UTF-8. The caller owns `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_text(
    object: *const hz_object,
    session: *const hz_session,
    text: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            copied(object, session, text, "text", |object| {
                Ok(extract::<String>(object)?.into_bytes())
            })
        })
    }
}

/// The bytes of a `bytes` or a `bytearray`. The caller owns `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_bytes(
    object: *const hz_object,
    session: *const hz_session,
    bytes: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { guarded(error, || copied(object, session, bytes, "bytes", extract)) }
}

/// `str(object)`. The caller owns `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_str(
    object: *const hz_object,
    session: *const hz_session,
    text: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            copied(object, session, text, "text", |object| Ok(object.str()?.into_bytes()))
        })
    }
}

/// `repr(object)`. The caller owns `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_repr(
    object: *const hz_object,
    session: *const hz_session,
    text: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            copied(object, session, text, "text", |object| Ok(object.repr()?.into_bytes()))
        })
    }
}

/// A copy of a value that consists of None, bool, int, float, str, bytes, bytearray, list, tuple and dict. Other
/// objects in it are HZ_ERROR_CONVERT. The caller owns `plain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_plain(
    object: *const hz_object,
    session: *const hz_session,
    plain: *mut *mut hz_plain,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(plain, "plain")?;
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            let value: Value = own.run(|session| extract(&object.handle().attach(session)?))?;
            out.put(hz_plain::new(value));
            Ok(())
        })
    }
}

/// The exception object, in a session on its interpreter. The caller owns `exception`. It is NULL, with HZ_OK, if the
/// error is no exception.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_exception(
    failed: *const hz_error,
    session: *const hz_session,
    exception: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(exception, "exception")?;
            let failed = reference(failed, "failed")?;
            reference(session, "session")?.run(|session| {
                if let Some(exception) = failed.exception() {
                    out.put(hz_object::keep(&exception.value(session)?));
                }
                Ok(())
            })
        })
    }
}

fn extract<T: for<'s> FromPython<'s>>(object: &Object<'_>) -> Result<T> {
    Ok(object.extract()?)
}

/// Writes what an object answers.
///
/// # Safety
///
/// The pointers are as the header demands.
unsafe fn asked<T: Copy>(
    object: *const hz_object,
    session: *const hz_session,
    out: *mut T,
    name: &str,
    ask: impl FnOnce(&Object<'_>) -> Result<T>,
) -> Result<()> {
    // SAFETY: as the caller vouches.
    unsafe {
        let (object, own) = (reference(object, "object")?, reference(session, "session")?);
        not_null(out, name)?;
        let value = own.run(|session| ask(&object.handle().attach(session)?))?;
        write(out, name, value)
    }
}

/// Hands out bytes that an object gives.
///
/// # Safety
///
/// As [`asked`].
unsafe fn copied(
    object: *const hz_object,
    session: *const hz_session,
    out: *mut *mut hz_bytes,
    name: &str,
    ask: impl FnOnce(&Object<'_>) -> Result<Vec<u8>>,
) -> Result<()> {
    // SAFETY: as the caller vouches.
    unsafe {
        let out = place(out, name)?;
        let (object, own) = (reference(object, "object")?, reference(session, "session")?);
        let bytes = own.run(|session| ask(&object.handle().attach(session)?))?;
        out.put(hz_bytes::new(bytes)?);
        Ok(())
    }
}

//! Python objects.

use super::session::{hz_session, object_of, with_object};
use crate::boundary::{
    Result, fill, given, guarded, hz_error, hz_status, not_null, slot, slot_or_none, text, write,
};
use crate::values::{Argument, Arguments, hz_bytes, hz_keyword, hz_object, hz_plain, hz_value};
use runtime::Object;
use std::ffi::c_char;

/// Calls `object(*arguments, **keywords)`. Empty `arguments` and `keywords` may be NULL. The caller owns `result`, which may
/// be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_call(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    arguments: *const hz_value,
    argument_count: usize,
    keywords: *const hz_keyword,
    keyword_count: usize,
    result: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let result = slot_or_none(result);
        let given = Arguments::new(arguments, argument_count, keywords, keyword_count)?;
        object_of(object, session, result, |object| {
            object.call_kwargs(given.positional(), given.named())
        })
    })
}

/// Calls `object.method(*arguments, **keywords)`, as hz_object_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_call_method(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    method: *const c_char,
    arguments: *const hz_value,
    argument_count: usize,
    keywords: *const hz_keyword,
    keyword_count: usize,
    result: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let result = slot_or_none(result);
        let method = text(method, "method")?;
        let given = Arguments::new(arguments, argument_count, keywords, keyword_count)?;
        object_of(object, session, result, |object| {
            object.call_method_kwargs(method, given.positional(), given.named())
        })
    })
}

/// `getattr(object, name)`. The caller owns `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_getattr(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    name: *const c_char,
    value: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (value, name) = (slot_or_none(value), text(name, "name")?);
        object_of(object, session, value, |object| object.getattr(name))
    })
}

/// `setattr(object, name, value)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_setattr(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    name: *const c_char,
    value: Option<&hz_value>,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (name, value) = (text(name, "name")?, Argument::of(given(value, "value")?)?);
        with_object(object, session, |object| object.setattr(name, value))
    })
}

/// `object[key]`. The caller owns `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_get_item(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    key: Option<&hz_value>,
    value: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (value, key) = (slot_or_none(value), Argument::of(given(key, "key")?)?);
        object_of(object, session, value, |object| object.get_item(key))
    })
}

/// `object[key] = value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_set_item(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    key: Option<&hz_value>,
    value: Option<&hz_value>,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (key, value) =
            (Argument::of(given(key, "key")?)?, Argument::of(given(value, "value")?)?);
        with_object(object, session, |object| object.set_item(key, value))
    })
}

/// `len(object)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_len(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    len: *mut usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, number_of(object, session, len, "len", |object| object.len()))
}

/// `bool(object)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_truth(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    truth: *mut bool,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, number_of(object, session, truth, "truth", |object| object.truth()))
}

/// An `int`, or an object with `__index__`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_int(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    value: *mut i64,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, number_of(object, session, value, "value", |object| object.extract()))
}

/// A `float`, or an object with `__float__`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_float(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    value: *mut f64,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, number_of(object, session, value, "value", |object| object.extract()))
}

/// The text of a `str` as UTF-8. The caller owns `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_text(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    text: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, bytes_of(object, session, text, "text", |object| object.extract::<String>()))
}

/// The bytes of a `bytes` or a `bytearray`. The caller owns `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_bytes(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    bytes: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, bytes_of(object, session, bytes, "bytes", |object| object.extract::<Vec<u8>>()))
}

/// `str(object)`. The caller owns `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_str(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    text: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, bytes_of(object, session, text, "text", |object| object.str()))
}

/// `repr(object)`. The caller owns `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_repr(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    text: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, bytes_of(object, session, text, "text", |object| object.repr()))
}

/// A copy of a value that consists of None, bool, int, float, str, bytes, bytearray, list, tuple and dict. Other
/// objects in it are HZ_ERROR_CONVERT. The caller owns `plain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_plain(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    plain: *mut *mut hz_plain,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(plain, "plain", || {
            with_object(object, session, |object| object.extract()).map(hz_plain::new)
        })
    })
}

/// The exception object, in a session on its interpreter. The caller owns `exception`. It is NULL, with HZ_OK, if the
/// error is not an exception.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_exception(
    failed: Option<&hz_error>,
    session: Option<&hz_session>,
    exception: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let exception = slot(exception, "exception")?;
        let failed = given(failed, "failed")?;
        given(session, "session")?.run(|session| {
            if let Some(found) = failed.exception() {
                exception.put(hz_object::keep(&found.value(session)?));
            }
            Ok(())
        })
    })
}

/// Writes a number that an object has.
///
/// # Safety
///
/// `out` is NULL or a place for a `T`.
unsafe fn number_of<T: Copy>(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    out: *mut T,
    name: &str,
    ask: impl FnOnce(&Object<'_>) -> runtime::Result<T>,
) -> Result<()> {
    not_null(out, name)?;
    let value = with_object(object, session, ask)?;
    // SAFETY: as the caller vouches.
    unsafe { write(out, name, value) }
}

/// Gives the caller bytes that an object has.
///
/// # Safety
///
/// `out` is NULL or a place for a pointer.
unsafe fn bytes_of<B: Into<Vec<u8>>>(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    out: *mut *mut hz_bytes,
    name: &str,
    ask: impl FnOnce(&Object<'_>) -> runtime::Result<B>,
) -> Result<()> {
    // SAFETY: as the caller vouches.
    unsafe { fill(out, name, || hz_bytes::new(with_object(object, session, ask)?)) }
}

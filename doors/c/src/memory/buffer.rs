//! Memory that crosses without a copy, by the buffer protocol.

use crate::boundary::{
    Result, c_text, fill, free, given, guarded, hz_error, hz_status, slot, write,
};
use crate::interpreters::{hz_session, object_in};
use crate::values::hz_object;
use runtime::{Buffer, Object};
use std::any::Any;
use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

/// Memory that a Python object exports: bytes, bytearray, memoryview, array, arrays of numpy. While it lives, the
/// exporter cannot move or free the memory, and the interpreter does not end. Any thread may use and free it.
///
/// Nothing keeps Python code from writing the memory meanwhile, unless it is read-only there.
#[derive(Clone)]
pub struct hz_buffer(Arc<Held>);

struct Held {
    buffer: Buffer,
    format: CString,
    #[expect(dead_code, reason = "held for its drop, which follows that of the buffer")]
    end: Option<Box<dyn Any + Send + Sync>>,
}

impl hz_buffer {
    /// Its drop gives the memory back, and then drops `end`.
    pub(crate) fn of(
        object: &Object<'_>,
        writable: bool,
        end: Option<Box<dyn Any + Send + Sync>>,
    ) -> Result<Self> {
        let buffer: Buffer = if writable { object.writable_buffer()? } else { object.extract()? };
        let format = c_text(buffer.format());
        Ok(Self(Arc::new(Held { buffer, format, end })))
    }

    fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }
}

/// The memory of an object, without a copy; with `writable` only if it may be written. The caller owns `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_buffer(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    writable: bool,
    buffer: *mut *mut hz_buffer,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(buffer, "buffer", || {
            let (object, session) = (given(object, "object")?, given(session, "session")?);
            session.run(|session| hz_buffer::of(&object.handle().attach(session)?, writable, None))
        })
    })
}

/// A memoryview of the same memory, in the session's interpreter, which may be another one than the exporter's. The
/// caller owns `view`. Memory that is not contiguous is HZ_ERROR_CONVERT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_object_from_buffer(
    session: Option<&hz_session>,
    buffer: Option<&hz_buffer>,
    view: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let view = slot(view, "view")?;
        let buffer = given(buffer, "buffer")?;
        object_in(session, view, |session| session.object_from(buffer.buffer()))
    })
}

/// The layout of a buffer. All pointers live as long as the buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hz_buffer_info {
    /// The first element.
    pub data: *mut c_void,
    /// The size of all elements, in bytes.
    pub len: usize,
    /// The size of one element, in bytes.
    pub item_size: usize,
    /// The format of one element, as in Python's module struct: "B", "d".
    pub format: *const c_char,
    /// The number of dimensions.
    pub dimensions: usize,
    /// The extent of each dimension, in elements.
    pub shape: *const isize,
    /// The distance of neighbours in each dimension, in bytes.
    pub strides: *const isize,
    /// Whether it must not be written.
    pub read_only: bool,
    /// Whether the elements lie row by row without gaps.
    pub contiguous: bool,
}

/// Writes the layout of a buffer to `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_buffer_describe(
    buffer: Option<&hz_buffer>,
    info: *mut hz_buffer_info,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let Held { buffer, format, .. } = &*given(buffer, "buffer")?.0;
        let known = hz_buffer_info {
            data: buffer.data_ptr().cast(),
            len: buffer.len(),
            item_size: buffer.item_size(),
            format: format.as_ptr(),
            dimensions: buffer.shape().len(),
            shape: buffer.shape().as_ptr(),
            strides: buffer.strides().as_ptr(),
            read_only: buffer.is_read_only(),
            contiguous: buffer.is_contiguous(),
        };
        write(info, "info", known)
    })
}

/// The first byte. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_buffer_data(buffer: Option<&hz_buffer>) -> *mut c_void {
    buffer.map_or(ptr::null_mut(), |buffer| buffer.buffer().data_ptr().cast())
}

/// The size of all elements, in bytes. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_buffer_len(buffer: Option<&hz_buffer>) -> usize {
    buffer.map_or(0, |buffer| buffer.buffer().len())
}

/// Gives the memory back to its exporter: the next thread that enters the interpreter frees it. For a result of hz_workers that
/// is the worker, as soon as it has no call, or this thread, when the worker has ended. NULL is allowed. If nothing else has the
/// interpreter, this waits for its end.
#[unsafe(no_mangle)]
pub extern "C" fn hz_buffer_free(buffer: Option<Box<hz_buffer>>) {
    free(buffer);
}

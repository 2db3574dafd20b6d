//! Memory that crosses without a copy, by the buffer protocol.

use crate::boundary::guarded;
use crate::error::{hz_error, text};
use crate::failure::{Failure, Result};
use crate::handle::hz_object;
use crate::pointers::{free, place, reference, reference_or, write};
use crate::session::hz_session;
use crate::status::hz_status;
use runtime::{Buffer, Object};
use std::any::Any;
use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

/// Called once when memory that was lent is no longer used, with the context that was given with it. It may be called
/// by any thread, also inside of the call that lends the memory. It must return soon, must not throw, and must not call
/// functions of this library on a session. A runtime that such a thread cannot enter, or that may end before the
/// interpreters do, takes hz_returns_release instead of a function of its own.
pub type hz_release = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Memory of the application's that is lent to Python. Its drop gives it back.
pub(crate) struct Lent {
    release: hz_release,
    context: *mut c_void,
}

impl Lent {
    pub(crate) fn new(release: hz_release, context: *mut c_void) -> Self {
        Self { release, context }
    }
}

// SAFETY: the header says that any thread may call the function.
unsafe impl Send for Lent {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: called once, as the header says.
            unsafe { release(self.context) };
        }
    }
}

/// A memoryview over `len` bytes at `data`, without a copy. Unless `read_only`, Python may write them. The memory stays
/// where it is until `release` is called with `context`: when Python no longer uses it, or at once if this function
/// fails. `release` may be NULL for memory that stays for ever. The caller owns `view`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_lend(
    session: *const hz_session,
    data: *mut c_void,
    len: usize,
    read_only: bool,
    release: hz_release,
    context: *mut c_void,
    view: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // Before anything can fail.
    let lent = Lent::new(release, context);
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, move || {
            let out = place(view, "view")?;
            let own = reference(session, "session")?;
            let data = memory_at(data, len)?;
            own.run(|session| {
                out.put(hz_object::keep(&session.lend_raw(data, len, read_only, lent)?));
                Ok(())
            })
        })
    }
}

/// Memory that goes without a copy.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hz_memory {
    /// The first byte.
    pub data: *mut c_void,
    /// The number of bytes.
    pub len: usize,
    /// Whether it must not be written.
    pub read_only: bool,
    /// Called once with `context`, by any thread, when the memory is no longer used. The memory stays until then. NULL if
    /// it stays for ever.
    pub release: hz_release,
    /// For `release`.
    pub context: *mut c_void,
}

/// The address of memory that may be empty.
pub(crate) fn memory_at(data: *mut c_void, len: usize) -> Result<*mut u8> {
    match (data.is_null(), len) {
        (_, 0) => Ok(ptr::dangling_mut()),
        (true, _) => Err(Failure::argument("data is NULL")),
        (false, len) if isize::try_from(len).is_err() => {
            Err(Failure::argument(format!("data cannot have {len} bytes")))
        }
        (false, _) => Ok(data.cast()),
    }
}

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
        let format = text(buffer.format());
        Ok(Self(Arc::new(Held { buffer, format, end })))
    }

    fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }
}

/// The memory of an object, without a copy; with `writable` only if it may be written. The caller owns `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_buffer(
    object: *const hz_object,
    session: *const hz_session,
    writable: bool,
    buffer: *mut *mut hz_buffer,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(buffer, "buffer")?;
            let (object, own) = (reference(object, "object")?, reference(session, "session")?);
            out.put(
                own.run(|session| {
                    hz_buffer::of(&object.handle().attach(session)?, writable, None)
                })?,
            );
            Ok(())
        })
    }
}

/// A memoryview of the same memory, in the session's interpreter, which may be another one than the exporter's. The
/// caller owns `view`. Memory that is not contiguous is HZ_ERROR_CONVERT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_object_from_buffer(
    session: *const hz_session,
    buffer: *const hz_buffer,
    view: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(view, "view")?;
            let (own, buffer) = (reference(session, "session")?, reference(buffer, "buffer")?);
            own.run(|session| {
                out.put(hz_object::keep(&session.object_from(buffer.buffer())?));
                Ok(())
            })
        })
    }
}

/// What is known about a buffer. All pointers live as long as the buffer.
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

/// Writes what is known about a buffer to `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_buffer_describe(
    buffer: *const hz_buffer,
    info: *mut hz_buffer_info,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let Held { buffer, format, .. } = &*reference(buffer, "buffer")?.0;
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
}

/// The first byte. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_buffer_data(buffer: *const hz_buffer) -> *mut c_void {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(buffer, ptr::null_mut(), |buffer| buffer.buffer().data_ptr().cast()) }
}

/// The size of all elements, in bytes. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_buffer_len(buffer: *const hz_buffer) -> usize {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(buffer, 0, |buffer| buffer.buffer().len()) }
}

/// Gives the memory back to its exporter: the next thread that enters the interpreter frees it. For a result of hz_workers that
/// is the worker, as soon as it has no call, or this thread, when the worker has ended. NULL is allowed. If nothing else has the
/// interpreter, this waits for its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_buffer_free(buffer: *mut hz_buffer) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(buffer) }
}

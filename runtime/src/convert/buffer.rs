//! Memory that crosses without a copy, by the buffer protocol (PEP 3118).

use super::FromPython;
use super::tensor::Element;
use crate::interpreter::Inner;
use crate::object::Object;
use crate::payload::table::{BufferView, Loan};
use crate::session::Session;
use crate::{Error, Result};
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;
use std::{fmt, mem::MaybeUninit, slice};

/// Memory that a Python object exports: `bytes`, `bytearray`, `memoryview`, `array`, numpy arrays.
///
/// The exporter is held, and cannot resize or free the memory, until this is dropped; which any
/// thread may do without waiting.
pub struct Buffer {
    interpreter: Arc<Inner>,
    view: BufferView,
}

// SAFETY: the view's pointers stay valid until `buffer_release`, which any thread may call, and
// are used to read only by methods that copy, or that are `unsafe` with a contract of their own.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Address of the first byte.
    pub fn data_ptr(&self) -> *mut u8 {
        self.view.data
    }

    /// Length of the elements taken together, in bytes.
    pub fn len(&self) -> usize {
        self.view.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.view.len == 0
    }

    /// Size of one element in bytes.
    pub fn item_size(&self) -> usize {
        self.view.item_size
    }

    /// Format of one element in the `struct` module's syntax: `B` for plain bytes.
    pub fn format(&self) -> &str {
        // SAFETY: the view's format is NUL-terminated and lives as long as the buffer is held.
        unsafe { CStr::from_ptr(self.view.format) }.to_str().unwrap_or("")
    }

    /// Extents, in elements.
    pub fn shape(&self) -> &[isize] {
        self.extents(self.view.shape)
    }

    /// Distances between neighbours along each dimension, in bytes.
    pub fn strides(&self) -> &[isize] {
        self.extents(self.view.strides)
    }

    fn extents(&self, extents: *const isize) -> &[isize] {
        if self.view.dimensions == 0 {
            return &[];
        }
        // SAFETY: the payload asks for shape and strides (PyBUF_STRIDES), of which there is one
        // entry for each dimension, valid while the buffer is held.
        unsafe { slice::from_raw_parts(extents, self.view.dimensions) }
    }

    /// Whether the exporter forbids writing.
    pub fn is_read_only(&self) -> bool {
        self.view.read_only != 0
    }

    /// Whether the elements lie row by row without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut dense = self.view.item_size as isize;
        self.is_empty()
            || self.shape().iter().zip(self.strides()).rev().all(|(&extent, &stride)| {
                let fits = extent == 1 || stride == dense;
                dense *= extent;
                fits
            })
    }

    /// The memory in place, as elements of type `T`.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if it is not contiguous, or format, size or alignment do not fit `T`.
    /// (`u8` fits every format: the elements' bytes.)
    ///
    /// # Safety
    ///
    /// Nobody may write the memory while the slice lives. A `bytes` object never changes; of
    /// everything else the caller must know.
    pub unsafe fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        if self.is_empty() {
            return Ok(&[]);
        }
        // SAFETY: contiguous memory of this type, held as long as `self`, which nobody writes, as
        // the caller vouches.
        Ok(unsafe {
            slice::from_raw_parts(self.view.data.cast::<T>(), self.view.len / size_of::<T>())
        })
    }

    /// A copy of contiguous memory, as elements of type `T`.
    ///
    /// # Errors
    ///
    /// As [`Buffer::as_slice`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        // Python code that could write runs only under the GIL.
        let _attached = self.interpreter.attach();
        self.check::<T>()?;
        let count = self.view.len / size_of::<T>();
        let mut elements = Vec::with_capacity(count);
        if count > 0 {
            // SAFETY: `check` has shown contiguous, aligned memory of `count` elements; the vector
            // has room for them, and any bytes make an `Element`.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.view.data.cast::<T>(),
                    elements.as_mut_ptr(),
                    count,
                );
                elements.set_len(count);
            }
        }
        Ok(elements)
    }

    fn check<T: Element>(&self) -> Result<()> {
        let refused = |reason: String| {
            Err(Error::convert(
                format!("elements of type {}", std::any::type_name::<T>()),
                format!("a buffer of format {:?}", self.format()),
                reason,
            ))
        };
        if !self.is_contiguous() {
            return refused("its elements are not contiguous".to_owned());
        }
        if size_of::<T>() != 1 && self.view.item_size != size_of::<T>() {
            return refused(format!("its elements have {} bytes", self.view.item_size));
        }
        // `=`, `<` and `@` are what native elements are marked with on a little-endian machine.
        let letter = self.format().trim_start_matches(['=', '<', '@']);
        let kinds = match T::DATA_TYPE.code {
            _ if size_of::<T>() == 1 => None,
            0 => Some("hilqn"),
            1 => Some("HILQNP"),
            _ => Some("efd"),
        };
        if kinds.is_some_and(|kinds| letter.len() != 1 || !kinds.contains(letter)) {
            return refused("its elements are of another kind".to_owned());
        }
        if !self.is_empty() && !self.view.data.cast::<T>().is_aligned() {
            return refused("it is not aligned".to_owned());
        }
        Ok(())
    }
}

impl FromPython<'_> for Buffer {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        hold(object, false)
    }
}

impl<'session> Object<'session> {
    /// The object's memory, held for writing: [`Buffer`] that is not read-only.
    ///
    /// # Errors
    ///
    /// `BufferError` if the exporter does not allow it, or `TypeError` if there is no buffer.
    pub fn writable_buffer(&self) -> Result<Buffer> {
        hold(self, true)
    }
}

fn hold(object: &Object<'_>, writable: bool) -> Result<Buffer> {
    let session = object.session();
    let mut view = MaybeUninit::uninit();
    session.perform(|inner, sink| {
        // SAFETY: `perform` attaches, and the object is alive.
        unsafe {
            (inner.table().buffer)(object.handle(), c_int::from(writable), view.as_mut_ptr(), sink)
        }
    })?;
    Ok(Buffer {
        interpreter: session.inner().clone(),
        // SAFETY: success means that the whole view has been written.
        view: unsafe { view.assume_init() },
    })
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the record is released once, and any thread may do so.
        unsafe { (self.interpreter.table().buffer_release)(self.view.record) };
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("format", &self.format())
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("read_only", &self.is_read_only())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A read-only `memoryview` over bytes that `owner` keeps; dropped when Python lets go, by
    /// whichever thread that is.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`].
    pub fn lend<O>(&self, owner: O) -> Result<Object<'_>>
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        // The owner first moves to where it stays: an array would take its bytes along.
        let owner = Box::new(owner);
        let bytes = (*owner).as_ref();
        let (data, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        // SAFETY: the bytes lie in the box or in what it owns, and Python does not write them.
        unsafe { self.lend_raw(data, len, true, owner) }
    }

    /// A writable `memoryview` over bytes that become Python's.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`].
    pub fn give(&self, bytes: impl Into<Box<[u8]>>) -> Result<Object<'_>> {
        let mut bytes = bytes.into();
        let (data, len) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the boxed bytes do not move with their box, and nothing in Rust uses them.
        unsafe { self.lend_raw(data, len, false, bytes) }
    }

    /// A `memoryview` over memory that `owner` keeps alive.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`].
    ///
    /// # Safety
    ///
    /// The memory must be valid until `owner` is dropped, which any thread may do; unless
    /// `read_only`, Python may write it, and nothing in Rust may hold a reference to it meanwhile.
    pub unsafe fn lend_raw<O: Send + Sync + 'static>(
        &self,
        data: *mut u8,
        len: usize,
        read_only: bool,
        owner: O,
    ) -> Result<Object<'_>> {
        let loan = Loan {
            data,
            len,
            read_only: c_int::from(read_only),
            context: Box::into_raw(Box::new(owner)).cast(),
            drop: release::<O>,
        };
        self.object(|inner, out, sink| {
            // SAFETY: `object` attaches; the payload drops the loan once, also on failure.
            unsafe { (inner.table().lend)(&loan, out, sink) }
        })
    }
}

/// # Safety
///
/// `context` must come from `Box::into_raw` of an `O`, and is freed.
unsafe extern "C" fn release<O>(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    drop(unsafe { Box::from_raw(context.cast::<O>()) });
}

//! Memory that crosses without a copy, by the buffer protocol (PEP 3118).

use super::element::{Element, is_format_of};
use super::memory_owner::MemoryOwner;
use super::{FromPython, ToPython, extents, room};
use crate::interpreter::Inner;
use crate::object::Object;
use crate::payload::table::BufferView;
use crate::session::Session;
use crate::settled_pages::Loan;
use crate::{Error, Result};
use std::ffi::{CStr, c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::{fmt, slice};

/// The most dimensions: `PyBUF_MAX_NDIM` (Include/cpython/object.h).
const DIMENSIONS: usize = 64;

/// Memory that a Python object exports: `bytes`, `bytearray`, `memoryview`, `array`, numpy arrays.
///
/// While this lives, the exporter cannot resize or free the memory. Any thread may drop it. The drop waits for no GIL. If
/// nothing else keeps the interpreter, it waits for the interpreter's end, as the drop of an
/// [`Interpreter`](crate::Interpreter) does.
///
/// An exporter that breaks the buffer protocol (numpy's `resize(refcheck=False)`) leaves addresses of freed memory behind,
/// as it does in Python.
pub struct Buffer {
    /// Dropped first: it is given back in the interpreter, at its end if nobody enters it before.
    held: Arc<Held>,
    interpreter: Arc<Inner>,
    data: *mut u8,
    /// In bytes.
    len: usize,
    item_size: usize,
    format: Box<str>,
    shape: Box<[isize]>,
    /// In bytes.
    strides: Box<[isize]>,
    read_only: bool,
}

// SAFETY: the memory stays valid until `buffer_release`, which any thread may call, and is used to
// read only by methods that copy, or that are `unsafe` with a contract of their own.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// A buffer that an exporter has given, until this is dropped.
struct Held {
    /// The interpreter's own: its code stays mapped, whatever becomes of the interpreter.
    release: unsafe extern "C" fn(*mut c_void),
    record: *mut c_void,
    _loan: Option<Loan>,
}

// SAFETY: the record is used to have it released only, which any thread may ask for.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the record is released once, and any thread may do so. When the interpreter has
        // ended nothing happens.
        unsafe { (self.release)(self.record) };
    }
}

impl Buffer {
    /// Address of the first byte.
    pub fn data_ptr(&self) -> *mut u8 {
        self.data
    }

    /// Length of the elements taken together, in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size of one element in bytes.
    pub fn item_size(&self) -> usize {
        self.item_size
    }

    /// Format of one element in the `struct` module's syntax: `B` for plain bytes.
    pub fn format(&self) -> &str {
        &self.format
    }

    /// Extents, in elements.
    pub fn shape(&self) -> &[isize] {
        &self.shape
    }

    /// Distances between neighbours along each dimension, in bytes.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Whether the exporter forbids writing.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether the elements lie row by row without gaps.
    pub fn is_contiguous(&self) -> bool {
        let [shape, strides] = [&self.shape, &self.strides].map(|extents| wide(extents));
        extents::is_row_major(&shape, &strides, self.item_size as i64)
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
    /// Nobody may write the memory while the slice lives. A `bytes` object never changes; for any other
    /// exporter the caller must know it.
    pub unsafe fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        if self.is_empty() {
            return Ok(&[]);
        }
        // SAFETY: contiguous, aligned memory of elements of this size, held as long as `self`, which nobody writes, as the
        // caller vouches.
        let elements = unsafe {
            slice::from_raw_parts(self.data.cast::<MaybeUninit<T>>(), self.len / size_of::<T>())
        };
        self.validate(elements)?;
        // SAFETY: they are valid, as has been checked just now.
        Ok(unsafe { slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) })
    }

    /// A copy of contiguous memory, as elements of type `T`. It waits for the interpreter's GIL, so no bytecode of that
    /// interpreter writes meanwhile. If others write (native code without the GIL, another interpreter that has the
    /// memory), the copy may mix old and new bytes.
    ///
    /// # Errors
    ///
    /// As [`Buffer::as_slice`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let _attached = self.interpreter.attach();
        self.check::<T>()?;
        let count = self.len / size_of::<T>();
        let mut elements: Vec<MaybeUninit<T>> = room(count, || self.described())?;
        if count > 0 {
            // SAFETY: `check` has shown contiguous, aligned memory of `count` elements, and the vector has room for them.
            unsafe {
                std::ptr::copy_nonoverlapping(self.data.cast(), elements.as_mut_ptr(), count);
                elements.set_len(count);
            }
        }
        // The copy, which nobody can change after this.
        self.validate(&elements)?;
        let mut elements = ManuallyDrop::new(elements);
        // SAFETY: the same allocation and layout, taken apart once; its elements are copies of initialised memory, and valid.
        Ok(unsafe {
            Vec::from_raw_parts(elements.as_mut_ptr().cast(), elements.len(), elements.capacity())
        })
    }

    /// The object that keeps the memory.
    pub(super) fn into_memory_owner(self) -> MemoryOwner {
        MemoryOwner { owner: self.held, interpreter: Some(self.interpreter) }
    }

    /// Whether contiguous elements of this type's kind and size are there, at aligned addresses.
    fn check<T: Element>(&self) -> Result<()> {
        let refused = |reason: String| Err(self.refused::<T>(&reason));
        if !self.is_contiguous() {
            return refused("its elements are not contiguous".to_owned());
        }
        if size_of::<T>() != 1 && self.item_size != size_of::<T>() {
            return refused(format!("its elements have {} bytes", self.item_size));
        }
        if !is_format_of::<T>(self.format()) {
            return refused("its elements are of another kind".to_owned());
        }
        if !self.is_empty() && !self.data.cast::<T>().is_aligned() {
            return refused("it is not aligned".to_owned());
        }
        Ok(())
    }

    /// `elements` must be initialised: a buffer's own that nobody writes, or copies.
    fn validate<T: Element>(&self, elements: &[MaybeUninit<T>]) -> Result<()> {
        // SAFETY: the elements are initialised, and have no padding, as `Element` promises.
        let bytes =
            unsafe { slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) };
        match T::are_valid(bytes) {
            true => Ok(()),
            false => Err(self.refused::<T>("an element has a bit pattern that this type has not")),
        }
    }

    fn refused<T>(&self, reason: &str) -> Error {
        Error::convert(
            format!("elements of type {}", std::any::type_name::<T>()),
            self.described(),
            reason,
        )
    }

    fn described(&self) -> String {
        format!("a buffer of format {:?}", self.format())
    }
}

impl FromPython<'_> for Buffer {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        hold(object, false)
    }
}

impl ToPython for Buffer {
    /// A `memoryview` of the same memory, shape and format, in any interpreter; of bytes,
    /// if `memoryview` does not know the format.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if the elements are not contiguous.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        if !self.is_contiguous() {
            let found = format!("a buffer of strides {:?}", self.strides);
            return Err(Error::convert("memoryview", found, "its elements are not contiguous"));
        }
        let owner: Arc<dyn Send + Sync> = self.held.clone();
        let keeper = MemoryOwner { owner, interpreter: Some(self.interpreter.clone()) };
        let _attached = session.attach();
        // SAFETY: the exporter keeps the memory until its buffer is released, which the keeper does.
        // The exporter allows or forbids writing. Rust holds no reference to the memory: those who make
        // one vouch for it.
        let bytes = unsafe { session.lend_kept(self.data, self.len, self.read_only, keeper) }?;
        match (native(&self.format, self.item_size), self.is_empty()) {
            (None, _) => Ok(bytes),
            // `cast` knows no extent of zero.
            (Some(format), true) => bytes.call_method("cast", (format,)),
            (Some(format), false) => bytes.call_method("cast", (format, &*self.shape)),
        }
    }
}

/// The format by which `memoryview.cast` knows such elements (`get_native_fmtchar`,
/// Objects/memoryobject.c): native ones only, of sizes that may differ from the standard ones.
fn native(format: &str, item_size: usize) -> Option<&str> {
    let letter = format.trim_start_matches(['=', '<', '@']);
    let of_size = |letters: [&'static str; 4]| {
        [1, 2, 4, 8].iter().position(|&size| size == item_size).map(|size| letters[size])
    };
    match letter {
        "b" | "h" | "i" | "l" | "q" | "n" => of_size(["b", "h", "i", "q"]),
        "B" | "H" | "I" | "L" | "Q" | "N" | "P" => of_size(["B", "H", "I", "Q"]),
        "f" | "d" | "c" | "?" => Some(letter),
        _ => None,
    }
}

impl<'session> Object<'session> {
    /// The object's memory, held for writing: [`Buffer`] that is not read-only.
    ///
    /// # Errors
    ///
    /// `BufferError` if the exporter does not allow it, or `TypeError` if the object has no buffer.
    pub fn writable_buffer(&self) -> Result<Buffer> {
        hold(self, true)
    }
}

fn hold(object: &Object<'_>, writable: bool) -> Result<Buffer> {
    let session = object.session();
    // The view points to the exporter's memory, which is read in the same turn.
    let _attached = session.attach();
    let mut view = MaybeUninit::uninit();
    object.perform(|table, handle, sink| {
        // SAFETY: `perform` attaches, and the object is alive.
        unsafe { (table.buffer)(handle, c_int::from(writable), view.as_mut_ptr(), sink) }
    })?;
    // SAFETY: success means that the whole view has been written.
    let view: BufferView = unsafe { view.assume_init() };
    let inner = session.inner();
    let loan = match view.read_only {
        0 => inner.lent(view.data.cast()),
        _ => None,
    };
    let held = Held { release: inner.table().buffer_release, record: view.record, _loan: loan };
    // SAFETY: the view is that of a buffer that is held, under the GIL since it was given.
    unsafe { checked(held, session.inner().clone(), &view) }
        .map_err(|reason| Error::convert("a buffer", object.type_name(), reason))
}

/// The exporter's values, checked; what may be null is filled in as `memoryview` does it
/// (`init_shape_strides`, Objects/memoryobject.c). ctypes gives no strides although they are asked
/// for: its arrays are always contiguous (`PyCData_NewGetBuffer`, Modules/_ctypes/_ctypes.c).
///
/// # Safety
///
/// `view` must be that of a buffer that is held, and the thread attached: of each array of extents
/// that is not null there are as many as dimensions.
unsafe fn checked(
    held: Held,
    interpreter: Arc<Inner>,
    view: &BufferView,
) -> Result<Buffer, String> {
    let of_exporter = |what: &str, value: i64| format!("its exporter gives the {what} {value}");
    let len = usize::try_from(view.len).map_err(|_| of_exporter("length", view.len as i64))?;
    let item_size = usize::try_from(view.item_size)
        .map_err(|_| of_exporter("item size", view.item_size as i64))?;
    let dimensions = extents::dimensions(view.dimensions, DIMENSIONS)
        .ok_or_else(|| of_exporter("number of dimensions", view.dimensions.into()))?;
    let entries = |extents: *const isize| -> Option<Box<[isize]>> {
        if dimensions == 0 {
            return Some(Box::default());
        }
        // SAFETY: one entry for each dimension unless null, as the caller vouches.
        (!extents.is_null()).then(|| unsafe { slice::from_raw_parts(extents, dimensions) }.into())
    };
    if !view.suboffsets.is_null()
        && entries(view.suboffsets).is_some_and(|offsets| offsets.iter().any(|&one| one >= 0))
    {
        return Err("its elements lie behind pointers".to_owned());
    }
    let shape = match entries(view.shape) {
        Some(shape) => shape,
        None if dimensions == 1 && item_size > 0 => Box::from([(len / item_size) as isize]),
        None => return Err("its exporter gives no shape".to_owned()),
    };
    let wide_shape = wide(&shape);
    let strides = match entries(view.strides) {
        Some(strides) => strides,
        None => extents::row_major(&wide_shape, item_size as i64)
            .ok_or_else(|| format!("the shape {shape:?} exceeds all memory"))?
            .iter()
            .map(|&stride| stride as isize)
            .collect(),
    };
    let count = extents::check(&wide_shape, &wide(&strides), item_size, 1)?;
    if count.checked_mul(item_size) != Some(len) {
        return Err(format!(
            "its exporter gives {len} bytes for the shape {shape:?} of elements of {item_size} bytes"
        ));
    }
    if view.data.is_null() && len > 0 {
        return Err(format!("its exporter gives no address for {len} bytes"));
    }
    let format = if view.format.is_null() {
        "B".into()
    } else {
        // SAFETY: an exporter's format is NUL-terminated, and lives as long as the buffer is held.
        unsafe { CStr::from_ptr(view.format) }.to_string_lossy().into()
    };
    let (data, read_only) = (view.data, view.read_only != 0);
    let held = Arc::new(held);
    Ok(Buffer { held, interpreter, data, len, item_size, format, shape, strides, read_only })
}

fn wide(extents: &[isize]) -> Vec<i64> {
    extents.iter().map(|&extent| extent as i64).collect()
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

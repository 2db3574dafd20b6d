//! Tensors that cross without a copy, by DLPack: a stable C ABI that torch, numpy, JAX and others
//! speak, so that nothing here depends on any of them.

pub use super::dlpack::DataType;
use crate::device::Device;

use super::dlpack::{DLManagedTensor, DLManagedTensorVersioned, DLTensor, READ_ONLY};
use super::element::Element;
use super::extents::Extents;
use super::memory_owner::MemoryOwner;
use super::{FromPython, ToPython, extents, room};
use crate::device;
use crate::interpreter::Inner;
use crate::object::Object;
use crate::session::Session;
use crate::settled_pages::Loan;
use crate::{Error, Result};
use std::ffi::{c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::{fmt, ptr, slice};

/// The most dimensions. DLPack and torch set no limit. A number that nobody could mean is a wrong one.
const DIMENSIONS: usize = 1024;

/// A tensor's memory with its shape. The memory belongs to Python or to Rust.
///
/// Clones share the memory. It is freed when the last clone is dropped and every Python object made from
/// it is gone, on whatever thread. Memory that Python owns is freed under the interpreter's GIL; if this
/// thread does not hold it, that happens at the interpreter's next entry. A drop waits for no GIL. If nothing else keeps
/// the interpreter, the drop of the last clone waits for the interpreter's end.
///
/// DLPack cannot keep an exporter from moving its memory. Python code must not resize a tensor that Rust has
/// (`torch.Tensor.resize_`), as it must not in Python beside `numpy.from_dlpack`.
#[derive(Clone)]
pub struct Tensor {
    /// Dropped first: what it gives back is queued in the interpreter, which frees it when it ends.
    pub(super) shared: Arc<Shared>,
    /// The interpreter that owns the memory. Apart from what is shared, since what is lent to that
    /// interpreter must not keep it: see [`MemoryOwner`].
    interpreter: Option<Arc<Inner>>,
}

pub(super) struct Shared {
    /// First element.
    pub(super) data: *mut c_void,
    pub(super) device: Device,
    pub(super) data_type: DataType,
    pub(super) shape: Extents,
    /// In elements.
    pub(super) strides: Extents,
    pub(super) read_only: bool,
    /// Frees the memory when it is dropped, on whatever thread.
    #[expect(dead_code, reason = "held for its drop")]
    owner: Arc<dyn Send + Sync>,
}

// SAFETY: the memory is plain data that no field here is used to write; reading it is `unsafe`
// with a contract of its own, or copies. The owner, which frees it, is `Send`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Tensor {
    /// A contiguous tensor that owns `elements`, row by row.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] unless the product of `shape` is the number of elements.
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: &[i64]) -> Result<Self> {
        let refused =
            |reason| Error::convert(format!("a tensor of shape {shape:?}"), "Vec", reason);
        if extents::count(shape) != Some(elements.len()) {
            return Err(refused(format!("it has {} elements", elements.len())));
        }
        let strides = extents::row_major(shape, 1)
            .ok_or_else(|| refused("its extents exceed all memory".to_owned()))?;
        // A vector's elements do not move when the vector does.
        let data = elements.as_ptr().cast_mut().cast();
        // SAFETY: the vector, which becomes the owner, holds as many elements of this type as the
        // shape asks for, and nobody else can reach them.
        Ok(unsafe {
            Self::from_raw_parts(data, T::DATA_TYPE, Device::CPU, shape, &strides, false, elements)
        })
    }

    /// A tensor over memory that `owner` keeps alive. Strides are in elements.
    ///
    /// # Safety
    ///
    /// Every element that shape and strides reach from `data` must lie in memory of `device` that is
    /// valid until `owner` is dropped. Any thread may drop it. Unless `read_only`, Python may write the
    /// memory, and nothing in Rust may hold a reference to it meanwhile.
    ///
    /// An owner that is itself a `Tensor` or a [`Buffer`](crate::Buffer) keeps its interpreter alive, as
    /// it does alone. Do not lend an owner that contains such a handle, a session or a pool to the same
    /// interpreter for good: the interpreter would keep itself alive.
    ///
    /// # Panics
    ///
    /// If `shape` and `strides` differ in length, or no memory can have them.
    pub unsafe fn from_raw_parts<O: Send + Sync + 'static>(
        data: *mut c_void,
        data_type: DataType,
        device: Device,
        shape: &[i64],
        strides: &[i64],
        read_only: bool,
        owner: O,
    ) -> Self {
        assert_eq!(shape.len(), strides.len(), "one stride for each dimension");
        let size = data_type.size();
        if let Err(reason) = extents::check(shape, strides, size, size) {
            panic!("a tensor in memory: {reason}");
        }
        let MemoryOwner { owner, interpreter } = MemoryOwner::of(owner);
        let (shape, strides) = (shape.into(), strides.into());
        let shared = Shared { data, device, data_type, shape, strides, read_only, owner };
        Self { shared: Arc::new(shared), interpreter }
    }

    /// The same, to be held by objects of the session's interpreter.
    pub(super) fn lent_to(&self, session: &Session) -> Self {
        let MemoryOwner { interpreter, .. } = self.clone().into_memory_owner().lent_to(session);
        Self { shared: Arc::clone(&self.shared), interpreter }
    }

    /// The object that keeps the memory.
    pub(super) fn into_memory_owner(self) -> MemoryOwner {
        MemoryOwner { owner: self.shared, interpreter: self.interpreter }
    }

    /// Address of the first element, in the memory of [`Tensor::device`].
    pub fn data_ptr(&self) -> *mut c_void {
        self.shared.data
    }

    /// Extents, in elements.
    pub fn shape(&self) -> &[i64] {
        &self.shared.shape
    }

    /// Distances between neighbours along each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.shared.strides
    }

    /// Type of the elements.
    pub fn data_type(&self) -> DataType {
        self.shared.data_type
    }

    /// Where the memory is.
    pub fn device(&self) -> Device {
        self.shared.device
    }

    /// Whether the memory must not be written.
    pub fn is_read_only(&self) -> bool {
        self.shared.read_only
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        extents::count(&self.shared.shape).unwrap_or(0)
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements lie row by row without gaps.
    pub fn is_contiguous(&self) -> bool {
        extents::is_row_major(&self.shared.shape, &self.shared.strides, 1)
    }

    /// The elements, in place.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if the type differs, the memory is not the machine's own, the elements are not
    /// contiguous, or an element's bit pattern is invalid for `T`.
    ///
    /// # Safety
    ///
    /// Nobody may write the memory while the slice lives: neither Python code that has the tensor,
    /// nor another clone.
    pub unsafe fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        if !self.is_contiguous() {
            return Err(self.refused::<T>("its elements are not contiguous; copy them with to_vec"));
        }
        if self.is_empty() {
            return Ok(&[]);
        }
        // SAFETY: type and contiguity have been checked, the owner keeps the memory alive as long
        // as `self`, and the caller sees to it that nobody writes.
        let elements =
            unsafe { slice::from_raw_parts(self.shared.data.cast::<MaybeUninit<T>>(), self.len()) };
        self.validate(elements)?;
        // SAFETY: they are valid, as has been checked just now.
        Ok(unsafe { slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) })
    }

    /// A contiguous tensor with a copy of `elements`, row by row.
    ///
    /// # Errors
    ///
    /// As [`Tensor::from_vec`].
    pub fn from_slice<T: Element>(elements: &[T], shape: &[i64]) -> Result<Self> {
        Self::from_vec(elements.to_vec(), shape)
    }

    /// A copy of the elements, row by row: one `memcpy` if they are contiguous. It takes no GIL. If others write the memory
    /// meanwhile, the copy may mix old and new bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if the type differs, the memory is not the machine's own, or an element's bit
    /// pattern is invalid for `T`, such as a `bool` that is neither 0 nor 1.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check::<T>()?;
        let mut elements: Vec<MaybeUninit<T>> = room(self.len(), || self.described())?;
        // SAFETY: every element that shape and strides reach, which were checked when the tensor was
        // made, is readable memory of this type's size; that it is aligned has been checked just now.
        unsafe {
            extents::copy(
                self.shared.data.cast(),
                &self.shared.shape,
                &self.shared.strides,
                &mut elements,
            );
        }
        self.validate(&elements)?;
        let mut elements = ManuallyDrop::new(elements);
        // SAFETY: the same allocation and layout, taken apart once; its elements have been copied from
        // initialised memory, and are valid.
        Ok(unsafe {
            Vec::from_raw_parts(elements.as_mut_ptr().cast(), elements.len(), elements.capacity())
        })
    }

    /// `elements` must be initialised: a tensor's own, or copies.
    pub(super) fn validate<T: Element>(&self, elements: &[MaybeUninit<T>]) -> Result<()> {
        // SAFETY: the elements are initialised, and have no padding, as `Element` promises.
        let bytes =
            unsafe { slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) };
        match T::are_valid(bytes) {
            true => Ok(()),
            false => Err(self.refused::<T>("an element has a bit pattern that this type has not")),
        }
    }

    pub(super) fn check<T: Element>(&self) -> Result<()> {
        if self.shared.data_type != T::DATA_TYPE {
            return Err(self.refused::<T>(&format!("its elements are {:?}", self.shared.data_type)));
        }
        // 1 is main memory; 3 and 11 are main memory that a GPU can reach (kDLCUDAHost, kDLROCMHost).
        if !matches!(self.shared.device.kind, 1 | 3 | 11) {
            return Err(self.refused::<T>("it is in a device's memory"));
        }
        if !self.is_empty() && !self.shared.data.cast::<T>().is_aligned() {
            return Err(self.refused::<T>("it is not aligned"));
        }
        Ok(())
    }

    pub(super) fn refused<T>(&self, reason: &str) -> Error {
        Error::convert(
            format!("elements of type {}", std::any::type_name::<T>()),
            self.described(),
            reason,
        )
    }

    fn described(&self) -> String {
        format!("a tensor of shape {:?}", self.shared.shape)
    }
}

impl FromPython<'_> for Tensor {
    /// Takes any object with `__dlpack__`. For memory on a GPU, users of the legacy default stream see
    /// all work that was queued on that stream before, as the protocol defines for a request without a
    /// stream. A `torch.Tensor` that requires gradients is detached: its history stays in the interpreter.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let session = object.session();
        let mut managed = ptr::null_mut();
        let mut versioned: c_int = 0;
        let exported = object.perform(|table, handle, sink| {
            // SAFETY: `perform` attaches, and the object is alive.
            unsafe { (table.tensor)(handle, &mut managed, &mut versioned, sink) }
        });
        if let Err(error) = exported {
            return match detached(object) {
                Some(detached) => Self::from_python(&detached),
                None => Err(error),
            };
        }
        let versioned = versioned != 0;
        let inner = session.inner();
        let owner = Managed { defer: inner.table().defer, managed, versioned, _loan: None };
        // SAFETY: success means a structure of the kind that `versioned` tells, which is ours until
        // its deleter is called.
        let (tensor, read_only) = unsafe {
            if versioned {
                let managed = &*managed.cast::<DLManagedTensorVersioned>();
                (&managed.dl_tensor, managed.flags & READ_ONLY != 0)
            } else {
                (&(*managed.cast::<DLManagedTensor>()).dl_tensor, false)
            }
        };
        // SAFETY: as above: the structure is valid.
        unsafe { describe(tensor, read_only, owner, inner) }
            .map(|shared| Self {
                shared: Arc::new(shared),
                interpreter: Some(session.inner().clone()),
            })
            .map_err(|reason| Error::convert("a tensor", object.type_name(), reason))
    }
}

/// The same elements without their history, of a tensor that torch refuses to export because it
/// requires gradients (`Tensor.__dlpack__` in torch/_tensor.py).
fn detached<'session>(object: &Object<'session>) -> Option<Object<'session>> {
    let requires_grad = object.getattr("requires_grad").and_then(|flag| flag.truth());
    match requires_grad {
        Ok(true) => object.call_method("detach", ()).ok(),
        _ => None,
    }
}

/// An exporter's description of its tensor, checked.
///
/// # Safety
///
/// `tensor` must be a valid structure that `owner` keeps alive.
unsafe fn describe(
    tensor: &DLTensor,
    read_only: bool,
    mut owner: Managed,
    interpreter: &Inner,
) -> Result<Shared, String> {
    let dimensions = extents::dimensions(tensor.ndim, DIMENSIONS)
        .ok_or_else(|| format!("its exporter gives {} dimensions", tensor.ndim))?;
    let entries = |extents: *mut i64| -> Option<Extents> {
        if dimensions == 0 {
            return Some(Extents::new());
        }
        // SAFETY: shape and strides have one entry for each dimension unless null.
        (!extents.is_null()).then(|| unsafe { slice::from_raw_parts(extents, dimensions) }.into())
    };
    let shape = entries(tensor.shape).ok_or("its exporter gives no shape")?;
    let strides = match entries(tensor.strides) {
        Some(strides) => strides,
        // Before DLPack 1.2 null means row by row.
        None => extents::row_major(&shape, 1)
            .ok_or_else(|| format!("the shape {shape:?} exceeds all memory"))?,
    };
    let size = tensor.dtype.size();
    let count = extents::check(&shape, &strides, size, size)?;
    let byte_offset = isize::try_from(tensor.byte_offset)
        .map_err(|_| format!("its exporter gives the offset {}", tensor.byte_offset))?;
    if tensor.data.is_null() && count > 0 {
        return Err(format!("its exporter gives no address for {count} elements"));
    }
    let data = tensor.data.wrapping_byte_offset(byte_offset);
    let (device, data_type) = (tensor.device, tensor.dtype);
    if !read_only && device == Device::CPU {
        owner._loan = interpreter.lent(data);
    }
    Ok(Shared { data, device, data_type, shape, strides, read_only, owner: Arc::new(owner) })
}

/// A tensor that an interpreter has exported: its deleter is called in that interpreter.
struct Managed {
    /// The interpreter's own: its code stays mapped, whatever becomes of the interpreter.
    defer: unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void),
    managed: *mut c_void,
    versioned: bool,
    /// If it is memory of Python's.
    _loan: Option<Loan>,
}

// SAFETY: the structure is used to have it deleted only, which any thread may ask for.
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Drop for Managed {
    fn drop(&mut self) {
        let delete = if self.versioned { delete_versioned } else { delete };
        // SAFETY: any thread may call `defer`, which calls the deleter once, in the interpreter that
        // the tensor came from; or never, when that has ended and the tensor with it.
        unsafe { (self.defer)(delete, self.managed) };
    }
}

/// # Safety
///
/// `managed` must be a `DLManagedTensor` that has not been deleted.
unsafe extern "C" fn delete(managed: *mut c_void) {
    let managed = managed.cast::<DLManagedTensor>();
    // SAFETY: as the caller vouches; a null deleter means that nothing is to be freed.
    if let Some(deleter) = unsafe { (*managed).deleter } {
        // SAFETY: called once, as DLPack asks.
        unsafe { deleter(managed) };
    }
}

/// # Safety
///
/// `managed` must be a `DLManagedTensorVersioned` that has not been deleted.
unsafe extern "C" fn delete_versioned(managed: *mut c_void) {
    let managed = managed.cast::<DLManagedTensorVersioned>();
    // SAFETY: as the caller vouches; a null deleter means that nothing is to be freed.
    if let Some(deleter) = unsafe { (*managed).deleter } {
        // SAFETY: called once, as DLPack asks.
        unsafe { deleter(managed) };
    }
}

impl ToPython for Tensor {
    /// Makes a `torch.Tensor` if the interpreter has imported torch. Otherwise makes a `numpy.ndarray` if
    /// the interpreter has imported numpy and the memory is main memory. Otherwise makes the carrier of
    /// [`Session::lend_tensor`]. All of them share the memory.
    ///
    /// Memory on a GPU that this interpreter's torch cannot use is an
    /// [`Error::Device`](crate::Error::Device). Work that is now queued on the legacy default stream runs
    /// before work that the interpreter queues later.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let _attached = session.attach();
        let (object, is_array) = session.lend_array(self)?;
        if is_array {
            return Ok(object);
        }
        let (carrier, devices) = (object, session.import("_hydrozoa.devices")?);
        if self.shared.device == Device::CPU {
            return devices.call_method("present", (carrier,));
        }
        if !devices.call_method("has_torch", ())?.truth()? {
            return Ok(carrier);
        }
        let what = || format!("a tensor of shape {:?}", self.shared.shape);
        device::require(session, self.shared.device, what)?;
        devices.call_method("adopt", (carrier,))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tensor")
            .field("data_type", &self.shared.data_type)
            .field("device", &self.shared.device)
            .field("shape", &self.shared.shape)
            .field("strides", &self.shared.strides)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Device, Tensor};

    #[test]
    fn a_strided_tensor_copies_row_by_row() {
        let mut elements = vec![1_i32, 2, 3, 4, 5, 6];
        let data = elements.as_mut_ptr().cast();
        // SAFETY: the transpose of a 2 x 3 matrix reaches the vector's own six elements.
        let transposed = unsafe {
            Tensor::from_raw_parts(
                data,
                super::DataType::I32,
                Device::CPU,
                &[3, 2],
                &[1, 3],
                false,
                elements,
            )
        };
        assert!(!transposed.is_contiguous());
        assert_eq!(transposed.to_vec::<i32>().unwrap(), [1, 4, 2, 5, 3, 6]);
        assert!(transposed.to_vec::<f32>().is_err());
    }

    #[test]
    fn shape_and_number_of_elements_must_agree() {
        assert!(Tensor::from_vec(vec![0_f32; 6], &[2, 3]).is_ok());
        assert!(Tensor::from_vec(vec![0_f32; 6], &[2, 4]).is_err());
        assert!(Tensor::from_vec(vec![0_f32; 6], &[-2, -3]).is_err());
        assert!(Tensor::from_vec(Vec::<f32>::new(), &[0, 3]).unwrap().is_empty());
    }
}

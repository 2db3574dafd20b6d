//! Tensors that cross without a copy, as DLPack's structures.
//!
//! Source of the layouts: `include/dlpack/dlpack.h` of github.com/dmlc/dlpack, version 0.8, which later versions keep.

use crate::boundary::{Failure, Result, fill, given, guarded, hz_error, hz_status, slot};
use crate::interpreters::{hz_session, object_in, with_object};
use crate::values::hz_object;
use runtime::{DataType, Device, Tensor};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

/// `DLTensor`.
#[repr(C)]
pub struct DLTensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    /// In elements. Null means row by row.
    strides: *mut i64,
    /// In bytes.
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
pub struct DLManagedTensor {
    dl_tensor: DLTensor,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

// The sizes that the C compiler gives on a 64-bit machine.
const _: () = assert!(size_of::<DLTensor>() == 48);
const _: () = assert!(size_of::<DLManagedTensor>() == 64);

/// A tensor of the application's that Python has. Its drop calls the deleter.
struct Managed(*mut DLManagedTensor);

// SAFETY: the header says that any thread may call the deleter.
unsafe impl Send for Managed {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Managed {}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: null, or a structure that is valid until its deleter is called, which happens here only.
        unsafe {
            if let Some(managed) = self.0.as_ref()
                && let Some(deleter) = managed.deleter
            {
                deleter(self.0);
            }
        }
    }
}

/// A tensor's memory as an object of Python, without a copy: a torch.Tensor if the interpreter has imported torch, else
/// an array of numpy if it has imported numpy, else an object with `__dlpack__`. The caller owns `object`.
///
/// This takes `tensor`, also if it fails: the tensor's deleter is called once, by any thread, when Python no longer
/// uses the memory or when this function fails. Python may write the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_object_from_dlpack(
    session: Option<&hz_session>,
    tensor: *mut DLManagedTensor,
    object: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // Before anything can fail.
    let managed = Managed(tensor);
    guarded!(error, {
        let object = slot(object, "object")?;
        let tensor = adopt(managed)?;
        object_in(session, object, |session| session.object_from(&tensor))
    })
}

/// The tensor over memory that a structure describes.
///
/// # Safety
///
/// The structure is null, or valid and of a tensor that its deleter frees.
unsafe fn adopt(managed: Managed) -> Result<Tensor> {
    // SAFETY: as the caller vouches; it lives as long as `managed`.
    let tensor = &given(unsafe { managed.0.as_ref() }, "tensor")?.dl_tensor;
    let refused = |what: String| Err(Failure::argument(format!("the tensor {what}")));
    let Ok(dimensions) = usize::try_from(tensor.ndim) else {
        return refused(format!("has {} dimensions", tensor.ndim));
    };
    let (shape, strides): (&[i64], Option<&[i64]>) = match dimensions {
        0 => (&[], Some(&[])),
        _ if tensor.shape.is_null() => return refused("has no shape".to_owned()),
        // SAFETY: shape and strides have one entry for each dimension unless null.
        _ => unsafe {
            let strides = (!tensor.strides.is_null())
                .then(|| slice::from_raw_parts(tensor.strides.cast_const(), dimensions));
            (slice::from_raw_parts(tensor.shape, dimensions), strides)
        },
    };
    let Some(strides) = strides.map(<[i64]>::to_vec).or_else(|| row_major(shape)) else {
        return refused(format!("of shape {shape:?} exceeds all memory"));
    };
    let Some(count) = elements(shape, &strides, tensor.dtype.size()) else {
        return refused(format!("of shape {shape:?} and strides {strides:?} is in no memory"));
    };
    let Ok(offset) = isize::try_from(tensor.byte_offset) else {
        return refused(format!("has the offset {}", tensor.byte_offset));
    };
    if tensor.data.is_null() && count > 0 {
        return refused(format!("has no address for {count} elements"));
    }
    let data = tensor.data.wrapping_byte_offset(offset);
    let (data_type, device, shape) = (tensor.dtype, tensor.device, shape.to_vec());
    // SAFETY: the header demands memory that shape and strides describe, until the deleter is called. The numbers have
    // been checked.
    Ok(unsafe { Tensor::from_raw_parts(data, data_type, device, &shape, &strides, false, managed) })
}

/// The strides of elements that lie row by row.
fn row_major(shape: &[i64]) -> Option<Vec<i64>> {
    let mut strides = vec![1_i64; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].checked_mul(shape[at].max(1))?;
    }
    Some(strides)
}

/// The number of elements, if memory can have them at these places.
fn elements(shape: &[i64], strides: &[i64], size: usize) -> Option<usize> {
    let size = i64::try_from(size).ok().filter(|&size| size > 0)?;
    let (mut count, mut low, mut high) = (1_i64, 0_i64, size);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let last = extent.checked_sub(1).filter(|_| extent >= 0)?.max(0);
        let reach = last.checked_mul(stride)?.checked_mul(size)?;
        low = low.checked_add(reach.min(0))?;
        high = high.checked_add(reach.max(0))?;
        count = count.checked_mul(extent)?;
    }
    high.checked_sub(low)?;
    usize::try_from(count).ok()
}

/// A tensor on its way out. It holds the memory until its deleter is called.
#[repr(C)]
struct Exported {
    managed: DLManagedTensor,
    tensor: Tensor,
}

/// The memory of an object with `__dlpack__` (torch.Tensor, arrays of numpy and others), without a copy. Memory that
/// must not be written is HZ_ERROR_CONVERT, since the structure cannot say so.
///
/// The caller owns `tensor`, and calls its deleter once, on any thread. Until then the memory stays, and the
/// interpreter does not end. If nothing else has the interpreter, the deleter waits for its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_to_dlpack(
    object: Option<&hz_object>,
    session: Option<&hz_session>,
    tensor: *mut *mut DLManagedTensor,
    error: *mut *mut hz_error,
) -> hz_status {
    // The structure is the first field of what is put, so both have one address.
    guarded!(error, {
        fill(tensor.cast::<*mut Exported>(), "tensor", || {
            let tensor: Tensor = with_object(object, session, |object| object.extract())?;
            if tensor.is_read_only() {
                return Err(Failure::Misuse(
                    hz_status::HZ_ERROR_CONVERT,
                    format!(
                        "cannot convert {tensor:?} to a DLManagedTensor: it must not be written, and the structure cannot \
                         say so; copy it, or use hz_object_to_buffer"
                    ),
                ));
            }
            Ok(Exported::new(tensor))
        })
    })
}

impl Exported {
    fn new(tensor: Tensor) -> Self {
        let dl_tensor = DLTensor {
            data: tensor.data_ptr(),
            device: tensor.device(),
            // Far below: no tensor library goes beyond 64 dimensions.
            ndim: tensor.shape().len() as i32,
            dtype: tensor.data_type(),
            // The clones of a tensor share these, and they do not move.
            shape: tensor.shape().as_ptr().cast_mut(),
            strides: tensor.strides().as_ptr().cast_mut(),
            byte_offset: 0,
        };
        let managed =
            DLManagedTensor { dl_tensor, manager_ctx: ptr::null_mut(), deleter: Some(delete) };
        Self { managed, tensor }
    }
}

/// # Safety
///
/// `managed` comes from [`hz_object_to_dlpack`], and is freed.
unsafe extern "C" fn delete(managed: *mut DLManagedTensor) {
    // A panic cannot leave a function of C.
    let freed = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as the caller vouches; the structure is the first field.
        let exported = unsafe { Box::from_raw(managed.cast::<Exported>()) };
        drop(exported.tensor);
    }));
    if let Err(panic) = freed {
        std::mem::forget(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::{elements, row_major};

    #[test]
    fn shapes_that_no_memory_has_are_refused() {
        assert_eq!(row_major(&[2, 3, 4]), Some(vec![12, 4, 1]));
        assert_eq!(row_major(&[2, i64::MAX, i64::MAX]), None);
        assert_eq!(elements(&[2, 3], &[3, 1], 8), Some(6));
        assert_eq!(elements(&[2, 3], &[-3, -1], 8), Some(6));
        assert_eq!(elements(&[], &[], 8), Some(1));
        assert_eq!(elements(&[0, 3], &[3, 1], 8), Some(0));
        assert_eq!(elements(&[-1], &[1], 8), None);
        assert_eq!(elements(&[2], &[1], 0), None);
        assert_eq!(elements(&[3], &[i64::MAX / 8], 8), None);
    }
}

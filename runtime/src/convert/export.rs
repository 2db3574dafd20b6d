//! Export of the host's tensors: DLPack structures that hold the memory until their deleter is called.

use super::dlpack::{
    DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, READ_ONLY,
};
use super::memory_owner::Lent;
use super::tensor::Tensor;
use crate::Result;
use crate::crash::contain;
use crate::interpreter::called_by_anybody;
use crate::object::Object;
use crate::panics::drop_contained;
use crate::payload::table::{Handle, TensorLoan};
use crate::session::Session;
use hydrozoa_loader::DomainId;
use std::ffi::{c_int, c_void};
use std::ptr;

impl Session {
    /// An object with `__dlpack__` and `__dlpack_device__` over the tensor's memory, for any
    /// library's `from_dlpack`, any number of times.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`](crate::Error::Python).
    pub fn lend_tensor(&self, tensor: &Tensor) -> Result<Object<'_>> {
        let loan = loan(self, tensor);
        self.object(|inner, out: *mut Handle, sink| {
            // SAFETY: `object` attaches; the payload calls `release` once, also on failure.
            unsafe { (inner.table().lend_tensor)(&loan, out, sink) }
        })
    }

    /// An array of numpy over the tensor's memory, if the interpreter's program has imported numpy and not torch, and numpy
    /// has such elements. Otherwise the object of [`Session::lend_tensor`], and `false`.
    pub(super) fn lend_array(&self, tensor: &Tensor) -> Result<(Object<'_>, bool)> {
        let loan = loan(self, tensor);
        let described = describe(tensor);
        let mut array: c_int = 0;
        let object = self.object(|inner, out: *mut Handle, sink| {
            let read_only = c_int::from(tensor.shared.read_only);
            let table = inner.table();
            // SAFETY: as above; the description is that of what is lent.
            unsafe { (table.lend_array)(&loan, &described, read_only, out, &mut array, sink) }
        })?;
        Ok((object, array != 0))
    }
}

fn loan(session: &Session, tensor: &Tensor) -> TensorLoan {
    TensorLoan {
        context: Lent::context(tensor.lent_to(session), session),
        export,
        drop: Lent::<Tensor>::release,
        device_type: tensor.shared.device.kind,
        device_id: tensor.shared.device.index,
    }
}

/// The tensor as DLPack has it. The structure points into what the tensor shares, which does not move.
fn describe(tensor: &Tensor) -> DLTensor {
    let shared = &tensor.shared;
    DLTensor {
        data: shared.data,
        device: shared.device,
        // Far below: no tensor library goes beyond 64 dimensions.
        ndim: shared.shape.len() as i32,
        dtype: shared.data_type,
        shape: shared.shape.as_ptr().cast_mut(),
        strides: shared.strides.as_ptr().cast_mut(),
        byte_offset: 0,
    }
}

/// # Safety
///
/// `context` must come from [`Lent::context`] of a [`Tensor`] that has not been released.
unsafe extern "C" fn export(context: *mut c_void, versioned: c_int) -> *mut c_void {
    // SAFETY: as the caller vouches.
    let lent = unsafe { &*context.cast::<Lent<Tensor>>() };
    Exported::leak(lent.owner.clone(), versioned != 0, Some(lent.domain))
}

/// A tensor on its way to a consumer, which holds the memory until it calls the deleter.
pub(super) struct Exported<M> {
    managed: M,
    /// That of the interpreter which has asked for it. If it crashes, it calls no deleter.
    domain: Option<DomainId>,
    #[expect(dead_code, reason = "held for its drop")]
    tensor: Tensor,
}

impl Exported<()> {
    /// The structure, to be freed by its deleter, on whatever thread and without any GIL.
    pub(super) fn leak(tensor: Tensor, versioned: bool, domain: Option<DomainId>) -> *mut c_void {
        let read_only = tensor.shared.read_only;
        let dl_tensor = describe(&tensor);
        if versioned {
            let managed = DLManagedTensorVersioned {
                version: DLPackVersion::THIS,
                manager_ctx: ptr::null_mut(),
                deleter: Some(free_versioned),
                flags: if read_only { READ_ONLY } else { 0 },
                dl_tensor,
            };
            let exported = Exported { managed, domain, tensor }.lend();
            exported.managed.manager_ctx = (&raw mut *exported).cast();
            (&raw mut exported.managed).cast()
        } else if read_only {
            // The structure of before 1.0 cannot say that the memory must not be written.
            ptr::null_mut()
        } else {
            let managed =
                DLManagedTensor { dl_tensor, manager_ctx: ptr::null_mut(), deleter: Some(free) };
            let exported = Exported { managed, domain, tensor }.lend();
            exported.managed.manager_ctx = (&raw mut *exported).cast();
            (&raw mut exported.managed).cast()
        }
    }
}

impl<M> Exported<M> {
    /// The structure in a box, which [`Exported::release`] frees.
    fn lend(self) -> &'static mut Self {
        let domain = self.domain;
        let exported = Box::leak(Box::new(self));
        if let Some(domain) = domain {
            contain::give(domain, (&raw mut *exported).cast(), Self::release);
        }
        exported
    }

    /// # Safety
    ///
    /// `context` must come from [`Exported::lend`] of this `M`, and is freed.
    unsafe extern "C" fn release(context: *mut c_void) {
        // SAFETY: as the caller vouches.
        let exported = unsafe { Box::from_raw(context.cast::<Self>()) };
        if let Some(domain) = exported.domain {
            contain::take_back(domain, context);
        }
        called_by_anybody(|| drop_contained("a tensor's owner", exported));
    }
}

/// # Safety
///
/// `managed` must come from [`Exported::leak`], and is freed.
unsafe extern "C" fn free(managed: *mut DLManagedTensor) {
    // SAFETY: as the caller vouches; the context is the box.
    unsafe { Exported::<DLManagedTensor>::release((*managed).manager_ctx) };
}

/// # Safety
///
/// `managed` must come from [`Exported::leak`], and is freed.
unsafe extern "C" fn free_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: as the caller vouches; the context is the box.
    unsafe { Exported::<DLManagedTensorVersioned>::release((*managed).manager_ctx) };
}

#[cfg(test)]
mod tests {
    use super::{Exported, free, free_versioned};
    use crate::convert::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
    use crate::convert::tensor::{DataType, Tensor};
    use crate::device::Device;
    use std::sync::Arc;

    #[test]
    fn an_exported_tensor_keeps_the_memory_until_its_deleter_is_called() {
        let owner = Arc::new(());
        // SAFETY: the tensor is empty.
        let tensor = unsafe {
            Tensor::from_raw_parts(
                std::ptr::dangling_mut(),
                DataType::U8,
                Device::CPU,
                &[0],
                &[1],
                false,
                owner.clone(),
            )
        };
        let plain = Exported::leak(tensor.clone(), false, None);
        let versioned = Exported::leak(tensor.clone(), true, None);
        drop(tensor);
        assert_eq!(Arc::strong_count(&owner), 2);
        // SAFETY: both are fresh from `leak`.
        unsafe {
            free(plain.cast::<DLManagedTensor>());
            assert_eq!(Arc::strong_count(&owner), 2);
            free_versioned(versioned.cast::<DLManagedTensorVersioned>());
        }
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}

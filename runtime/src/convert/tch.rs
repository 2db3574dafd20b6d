//! `tch::Tensor` in and out without a copy. Cargo feature `tch`.
//!
//! tch's C interface has neither `toDLPack` nor `fromDLPack`, nor a way to make a tensor that owns
//! foreign memory. Out of tch, a tensor is described by its accessors and kept by a shallow clone.
//! Into tch, libtorch's own `at::fromDLPack` is called; tch 0.24 is made for torch 2.11 exactly, so
//! its mangled name and signature are those of that release (aten/src/ATen/DLConvertor.h).

use super::dlpack::{DLManagedTensor, DataType};
use super::export::Exported;
use super::tensor::Tensor;
use super::{FromPython, ToPython};
use crate::device::Device;
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use std::ffi::c_void;
use tch::Kind;

/// Element types that both sides know.
const KINDS: [(Kind, DataType); 13] = [
    (Kind::Bool, DataType::BOOLEAN),
    (Kind::Uint8, DataType::U8),
    (Kind::Int8, DataType::I8),
    (Kind::Int16, DataType::I16),
    (Kind::Int, DataType::I32),
    (Kind::Int64, DataType::I64),
    (Kind::Half, DataType::F16),
    (Kind::BFloat16, DataType::BF16),
    (Kind::Float, DataType::F32),
    (Kind::Double, DataType::F64),
    (Kind::ComplexHalf, DataType::COMPLEX32),
    (Kind::ComplexFloat, DataType::COMPLEX64),
    (Kind::ComplexDouble, DataType::COMPLEX128),
];

/// `DLDeviceType` of CUDA.
const CUDA: i32 = 2;

impl TryFrom<&tch::Tensor> for Tensor {
    type Error = Error;

    /// Shares the memory; of a tensor that requires gradients, its values only.
    fn try_from(tensor: &tch::Tensor) -> Result<Self> {
        let refused = |reason: &str| Error::convert("Tensor", "tch::Tensor", reason);
        if !tensor.defined() || tensor.is_sparse() {
            return Err(refused("it has no dense memory"));
        }
        let kind = tensor.f_kind().map_err(|error| refused(&error.to_string()))?;
        let data_type = KINDS
            .iter()
            .find(|(known, _)| *known == kind)
            .map(|(_, data_type)| *data_type)
            .ok_or_else(|| refused("DLPack has no such element type"))?;
        let device = match tensor.device() {
            tch::Device::Cpu => Device::CPU,
            tch::Device::Cuda(index) => Device::cuda(index as i32),
            _ => return Err(refused("DLPack has no such device")),
        };
        // A conjugate or a negative may be a flag on its base's memory, which DLPack cannot say.
        let plain = tensor.detach().resolve_conj().resolve_neg();
        let (data, shape, strides) = (plain.data_ptr(), plain.size(), plain.stride());
        let owner = Owner(plain);
        // SAFETY: the clone keeps the tensor's memory, of which shape and strides are the
        // tensor's own; torch gives tensors of shared memory to any thread.
        Ok(unsafe { Self::from_raw_parts(data, data_type, device, &shape, &strides, false, owner) })
    }
}

/// A tensor that is only dropped.
struct Owner(#[expect(dead_code, reason = "held for its drop")] tch::Tensor);

// SAFETY: nothing reads the tensor through a shared reference.
unsafe impl Sync for Owner {}

// SAFETY: the declaration is libtorch 2.11's, in the terms of the psABI: `at::Tensor` has a
// destructor and so is returned through a hidden pointer, and `std::function`, which has one too,
// is passed by the address of a temporary that the caller destroys.
unsafe extern "C-unwind" {
    /// `at::Tensor at::fromDLPack(DLManagedTensor*, std::function<void(void*)>)`.
    #[link_name = "_ZN2at10fromDLPackEP15DLManagedTensorSt8functionIFvPvEE"]
    fn from_dlpack(
        result: *mut *mut c_void,
        managed: *mut DLManagedTensor,
        deleter: *mut [usize; 4],
    ) -> *mut *mut c_void;
}

impl TryFrom<&Tensor> for tch::Tensor {
    type Error = Error;

    /// Shares the memory, which is given back when the last tensor over it is dropped.
    fn try_from(tensor: &Tensor) -> Result<Self> {
        let refused = |reason: &str| {
            Error::convert("tch::Tensor", format!("a tensor of shape {:?}", tensor.shape()), reason)
        };
        // Refuses everything that would make fromDLPack throw: a C++ exception must not reach a Rust caller.
        if !KINDS.iter().any(|(_, known)| *known == tensor.data_type()) {
            return Err(refused("torch has no such element type"));
        }
        let device = tensor.device();
        let exists = match device.kind {
            CUDA => i64::from(device.index) < tch::Cuda::device_count(),
            _ => device == Device::CPU,
        };
        if !exists {
            return Err(refused("this process's torch has no such device"));
        }
        if tensor.strides().iter().any(|stride| *stride < 0) {
            return Err(refused("torch has no negative strides"));
        }
        if tensor.is_read_only() {
            return Err(refused("it is read-only, which torch cannot say of a tensor"));
        }
        let managed: *mut DLManagedTensor = Exported::leak(tensor.clone(), false, None).cast();
        // An empty function: libtorch then calls the structure's own deleter.
        let mut deleter = [0; 4];
        let mut result = std::ptr::null_mut();
        // SAFETY: `managed` is a fresh structure that the callee takes over; both places are valid
        // and aligned; type, device and strides are such that nothing throws.
        unsafe { from_dlpack(&mut result, managed, &mut deleter) };
        let mut place = Self::new();
        // SAFETY: tch's pointer is to an `at::Tensor`, which is one pointer; the one in it is that
        // of the undefined tensor, a static that is not counted, so overwriting it loses nothing.
        unsafe { place.as_mut_ptr().cast::<*mut c_void>().write(result) };
        Ok(place)
    }
}

impl ToPython for tch::Tensor {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        Tensor::try_from(self)?.to_python(session)
    }
}

impl FromPython<'_> for tch::Tensor {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        Self::try_from(&Tensor::from_python(object)?)
    }
}

//! DLPack's C structures, written down from its header.
//!
//! Source: `include/dlpack/dlpack.h` of github.com/dmlc/dlpack, version 1.0 (the structures without
//! a version are those of 0.8, which 1.0 keeps). The Python side of the protocol is
//! <https://dmlc.github.io/dlpack/latest/python_spec.html>.

use std::ffi::c_void;

/// `DLDevice`: where the memory is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// `DLDeviceType`, such as [`Device::CPU`]'s 1 or CUDA's 2.
    pub kind: i32,
    /// Number among the devices of this kind.
    pub index: i32,
}

impl Device {
    /// The machine's main memory: `kDLCPU`.
    pub const CPU: Self = Self { kind: 1, index: 0 };

    /// An NVIDIA GPU: `kDLCUDA`.
    pub const fn cuda(index: i32) -> Self {
        Self { kind: 2, index }
    }
}

/// `DLDataType`: the type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataType {
    /// `DLDataTypeCode`.
    pub code: u8,
    /// Size of one lane in bits.
    pub bits: u8,
    /// Lanes of a vector type; 1 otherwise.
    pub lanes: u16,
}

impl DataType {
    /// `kDLInt`, `kDLUInt`, `kDLFloat`, `kDLBfloat`, `kDLComplex`, `kDLBool`.
    const INT: u8 = 0;
    const UINT: u8 = 1;
    const FLOAT: u8 = 2;
    const BFLOAT: u8 = 4;
    const COMPLEX: u8 = 5;
    const BOOL: u8 = 6;

    const fn scalar(code: u8, bits: u8) -> Self {
        Self { code, bits, lanes: 1 }
    }

    /// Signed, 8 bits.
    pub const I8: Self = Self::scalar(Self::INT, 8);
    /// Signed, 16 bits.
    pub const I16: Self = Self::scalar(Self::INT, 16);
    /// Signed, 32 bits.
    pub const I32: Self = Self::scalar(Self::INT, 32);
    /// Signed, 64 bits.
    pub const I64: Self = Self::scalar(Self::INT, 64);
    /// Unsigned, 8 bits.
    pub const U8: Self = Self::scalar(Self::UINT, 8);
    /// Unsigned, 16 bits.
    pub const U16: Self = Self::scalar(Self::UINT, 16);
    /// Unsigned, 32 bits.
    pub const U32: Self = Self::scalar(Self::UINT, 32);
    /// Unsigned, 64 bits.
    pub const U64: Self = Self::scalar(Self::UINT, 64);
    /// IEEE 754, 16 bits.
    pub const F16: Self = Self::scalar(Self::FLOAT, 16);
    /// IEEE 754, 32 bits.
    pub const F32: Self = Self::scalar(Self::FLOAT, 32);
    /// IEEE 754, 64 bits.
    pub const F64: Self = Self::scalar(Self::FLOAT, 64);
    /// The upper half of an IEEE 754 number of 32 bits.
    pub const BF16: Self = Self::scalar(Self::BFLOAT, 16);
    /// Two `F16`.
    pub const COMPLEX32: Self = Self::scalar(Self::COMPLEX, 32);
    /// Two `F32`.
    pub const COMPLEX64: Self = Self::scalar(Self::COMPLEX, 64);
    /// Two `F64`.
    pub const COMPLEX128: Self = Self::scalar(Self::COMPLEX, 128);
    /// One byte that is 0 or 1.
    pub const BOOLEAN: Self = Self::scalar(Self::BOOL, 8);

    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        (self.bits as usize * self.lanes as usize).div_ceil(8)
    }
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The memory's begin, in the device's own terms.
    pub data: *mut c_void,
    /// Where the memory is.
    pub device: Device,
    /// Number of dimensions.
    pub ndim: i32,
    /// The type of an element.
    pub dtype: DataType,
    /// `ndim` extents, in elements.
    pub shape: *mut i64,
    /// In elements; null means row-major and contiguous.
    pub strides: *mut i64,
    /// In bytes, from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor and how to free it.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Frees the structure and lets go of the memory; called once, by the consumer.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLPackVersion {
    /// Changed when the layout changes.
    pub major: u32,
    /// Changed when flags or codes are added.
    pub minor: u32,
}

impl DLPackVersion {
    /// The version that these structures are.
    pub const THIS: Self = Self { major: 1, minor: 0 };
}

/// `DLManagedTensorVersioned`: the same since version 1.0, with flags.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of the layout that follows.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Frees the structure and lets go of the memory; called once, by the consumer.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// Bits such as [`READ_ONLY`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
pub const READ_ONLY: u64 = 1;

// The sizes that the C compiler gives on a 64-bit machine: a field forgotten or widened shows here.
const _: () = assert!(size_of::<DLTensor>() == 48);
const _: () = assert!(size_of::<DLManagedTensor>() == 64);
const _: () = assert!(size_of::<DLManagedTensorVersioned>() == 80);

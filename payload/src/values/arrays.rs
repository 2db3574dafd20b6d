//! numpy's arrays, by numpy's C API: the short way for what DLPack and Python code do in microseconds.
//!
//! The API is a table of functions in the capsule `_ARRAY_API` of numpy's core. Compiled extensions use it by position, so
//! numpy keeps the positions, and the first fields of its structures, for as long as its ABI version stays. There are two
//! versions, of numpy 1 and of numpy 2, which agree in everything here. Source: `numpy/_core/include/numpy`,
//! `__multiarray_api.h` and `ndarraytypes.h`. Arrays that this module does not know go by DLPack.

use crate::api::fault::{Fault, Outcome};
use crate::api::interned::name_of;
use crate::api::reference::Ref;
use crate::dlpack::{
    DLManagedTensorVersioned, DLPackVersion, DLTensor, DataType, Device, READ_ONLY,
};
use crate::table::Text;
use pyo3_ffi::{
    Py_DECREF, Py_TYPE, PyCapsule_GetPointer, PyDict_CheckExact, PyDict_GetItemWithError,
    PyErr_Clear, PyImport_GetModuleDict, PyObject, PyObject_GetAttr, PyTypeObject,
};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `NPY_VERSION` of numpy 1 and of numpy 2.
const ABI_VERSIONS: [c_uint; 2] = [0x0100_0009, 0x0200_0000];

/// `NPY_ARRAY_WRITEABLE`.
const WRITEABLE: c_int = 0x0400;

/// `NPY_ARRAY_WARN_ON_WRITE`: numpy warns when such an array is exported.
const WARN_ON_WRITE: c_int = 1 << 31;

/// `NPY_MAXDIMS` of numpy 1.
const MOST_DIMENSIONS: usize = 32;

/// The codes of numpy (`NPY_TYPES`) and DLPack's types. `long` and `long long`, which numpy has twice, occur twice.
const TYPES: [(c_int, DataType); 16] = [
    (0, DataType::BOOLEAN),
    (1, DataType::I8),
    (2, DataType::U8),
    (3, DataType::I16),
    (4, DataType::U16),
    (5, DataType::I32),
    (6, DataType::U32),
    (7, DataType::I64),
    (8, DataType::U64),
    (9, DataType::I64),
    (10, DataType::U64),
    (11, DataType::F32),
    (12, DataType::F64),
    (14, DataType::COMPLEX64),
    (15, DataType::COMPLEX128),
    (23, DataType::F16),
];

/// `PyArrayObject_fields`, as far as it is used.
#[repr(C)]
struct Array {
    object: PyObject,
    data: *mut c_void,
    dimensions: c_int,
    shape: *const isize,
    /// In bytes.
    strides: *const isize,
    base: *mut PyObject,
    descriptor: *const Descriptor,
    flags: c_int,
}

/// `PyArray_Descr`, as far as it is used.
#[repr(C)]
struct Descriptor {
    object: PyObject,
    class: *mut PyTypeObject,
    kind: c_char,
    code: c_char,
    byte_order: c_char,
    flags: c_char,
    number: c_int,
}

/// numpy's functions.
#[derive(Clone, Copy)]
struct Numpy(*const *const c_void);

/// `PyArray_NewFromDescr`.
type New = unsafe extern "C" fn(
    class: *mut PyTypeObject,
    descriptor: *mut PyObject,
    dimensions: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *mut c_void,
    flags: c_int,
    model: *mut PyObject,
) -> *mut PyObject;

impl Numpy {
    /// numpy's, if this interpreter has imported it. It cannot be imported twice, nor be unloaded.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn imported() -> Option<Self> {
        static FOUND: AtomicPtr<*const c_void> = AtomicPtr::new(ptr::null_mut());
        let found = FOUND.load(Ordering::Relaxed);
        if !found.is_null() {
            return Some(Self(found));
        }
        // SAFETY: by contract.
        let numpy = unsafe { Self::find() }?;
        FOUND.store(numpy.0.cast_mut(), Ordering::Relaxed);
        Some(numpy)
    }

    /// # Safety
    ///
    /// Attached.
    #[cold]
    unsafe fn find() -> Option<Self> {
        let cores = ["numpy._core._multiarray_umath", "numpy.core._multiarray_umath"];
        // SAFETY: attached; the objects are alive during the calls. Without a capsule of this name the result is null.
        unsafe {
            let core = cores.into_iter().find_map(|name| module(name))?;
            let name = name_of(Text::new("_ARRAY_API")).ok()?;
            let capsule = Ref::owned(PyObject_GetAttr(core.as_ptr(), name.as_ptr()));
            let table = match &capsule {
                Ok(capsule) => PyCapsule_GetPointer(capsule.as_ptr(), ptr::null()),
                Err(_) => ptr::null_mut(),
            };
            if table.is_null() {
                PyErr_Clear();
                return None;
            }
            let numpy = Self(table.cast_const().cast());
            ABI_VERSIONS.contains(&numpy.version()).then_some(numpy)
        }
    }

    /// # Safety
    ///
    /// Attached.
    unsafe fn version(self) -> c_uint {
        // SAFETY: `PyArray_GetNDArrayCVersion`, at this position in each version.
        unsafe { transmute::<*const c_void, unsafe extern "C" fn() -> c_uint>(*self.0)() }
    }

    /// The class `ndarray`.
    fn class(self) -> *mut PyTypeObject {
        // SAFETY: `PyArray_Type`, in a table that lives as long as the interpreter.
        unsafe { (*self.0.add(2)).cast_mut().cast() }
    }

    /// A new reference to the `dtype` of a code, or null with an exception.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn descriptor(self, number: c_int) -> *mut PyObject {
        type Make = unsafe extern "C" fn(c_int) -> *mut PyObject;
        // SAFETY: `PyArray_DescrFromType`; attached by contract.
        unsafe { transmute::<*const c_void, Make>(*self.0.add(45))(number) }
    }

    fn new_array(self) -> New {
        // SAFETY: `PyArray_NewFromDescr` has this type.
        unsafe { transmute::<*const c_void, New>(*self.0.add(94)) }
    }

    /// Has an array keep an object, whose reference it takes over in every case. Returns -1 on failure.
    ///
    /// # Safety
    ///
    /// Attached; an array that has no base yet.
    unsafe fn set_base(self, array: *mut PyObject, base: Ref) -> c_int {
        type Set = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> c_int;
        // SAFETY: `PyArray_SetBaseObject`; the rest by contract.
        unsafe {
            transmute::<*const c_void, Set>(*self.0.add(282))(array, base.into_handle().cast())
        }
    }
}

/// The module that this interpreter's program has imported under a name, if any.
///
/// # Safety
///
/// Attached.
unsafe fn module(name: &str) -> Option<Ref> {
    // SAFETY: attached. The modules live as long as the interpreter; what is found is alive.
    unsafe {
        let modules = PyImport_GetModuleDict();
        if modules.is_null() || PyDict_CheckExact(modules) == 0 {
            return None;
        }
        let name = name_of(Text::new(name)).ok()?;
        let found = PyDict_GetItemWithError(modules, name.as_ptr());
        if found.is_null() {
            PyErr_Clear();
            return None;
        }
        Ref::borrowed(found).ok()
    }
}

/// An array over a tensor in main memory that `keeper` keeps, where the program has imported numpy and not torch. `None` if
/// it is for others to say how the program has tensors.
///
/// # Safety
///
/// Attached. The tensor is valid as long as `keeper` lives; its extents have been checked to lie within it.
pub(crate) unsafe fn over(
    tensor: &DLTensor,
    read_only: bool,
    keeper: &Ref,
) -> Option<Outcome<Ref>> {
    let dimensions = usize::try_from(tensor.ndim).ok().filter(|count| *count <= MOST_DIMENSIONS)?;
    let (number, _) = TYPES.iter().find(|(_, kind)| *kind == tensor.dtype)?;
    let size = isize::try_from(tensor.dtype.size()).ok()?;
    if tensor.device != Device::CPU || tensor.strides.is_null() {
        return None;
    }
    // SAFETY: attached.
    let numpy = unsafe {
        if module("torch").is_some() || module("numpy").is_none() {
            return None;
        }
        Numpy::imported()?
    };
    let mut shape = [0isize; MOST_DIMENSIONS];
    let mut strides = [0isize; MOST_DIMENSIONS];
    for index in 0..dimensions {
        // SAFETY: each has an entry for each dimension.
        let (extent, stride) = unsafe { (*tensor.shape.add(index), *tensor.strides.add(index)) };
        shape[index] = isize::try_from(extent).ok()?;
        strides[index] = isize::try_from(stride).ok()?.checked_mul(size)?;
    }
    let flags = if read_only { 0 } else { WRITEABLE };
    // SAFETY: attached. numpy takes the descriptor over, and copies shape and strides. The memory lives as long as the
    // array, by its base.
    unsafe {
        let descriptor = numpy.descriptor(*number);
        let array = numpy.new_array()(
            numpy.class(),
            descriptor,
            tensor.ndim,
            shape.as_ptr(),
            strides.as_ptr(),
            tensor.data.byte_add(usize::try_from(tensor.byte_offset).ok()?),
            flags,
            ptr::null_mut(),
        );
        Some(Ref::owned(array).and_then(|array| {
            let keeper = Ref::borrowed(keeper.as_ptr())?;
            match numpy.set_base(array.as_ptr(), keeper) {
                0 => Ok(array),
                _ => Err(Fault::Raised),
            }
        }))
    }
}

/// An array's memory as DLPack has it, and what keeps it.
struct Exported {
    managed: DLManagedTensorVersioned,
    shape: [i64; MOST_DIMENSIONS],
    /// In elements.
    strides: [i64; MOST_DIMENSIONS],
    array: *mut PyObject,
}

/// The memory of an `ndarray`, no subclass, of elements that DLPack has. `None` for any other object.
///
/// # Safety
///
/// Attached; a live object. The deleter is called attached.
pub(crate) unsafe fn export(object: *mut PyObject) -> Option<*mut DLManagedTensorVersioned> {
    // SAFETY: attached; an object of numpy's class has these fields, with an entry in shape and strides for each dimension.
    unsafe {
        let numpy = Numpy::imported()?;
        if !ptr::eq(Py_TYPE(object), numpy.class()) {
            return None;
        }
        let array = &*object.cast::<Array>();
        let descriptor = &*array.descriptor;
        let dimensions =
            usize::try_from(array.dimensions).ok().filter(|count| *count <= MOST_DIMENSIONS)?;
        let (_, kind) = TYPES.iter().find(|(number, _)| *number == descriptor.number)?;
        // A `char`, which has a sign on some machines.
        let own_order = matches!(descriptor.byte_order.to_ne_bytes(), [b'=' | b'|']);
        if !own_order || array.flags & WARN_ON_WRITE != 0 {
            return None;
        }
        let size = isize::try_from(kind.size()).ok()?;
        let [mut shape, mut strides] = [[0i64; MOST_DIMENSIONS]; 2];
        for (index, (extent, step)) in
            shape.iter_mut().zip(&mut strides).enumerate().take(dimensions)
        {
            let stride = *array.strides.add(index);
            if stride % size != 0 {
                return None;
            }
            (*extent, *step) = (*array.shape.add(index) as i64, (stride / size) as i64);
        }
        let dl_tensor = DLTensor {
            data: array.data,
            device: Device::CPU,
            ndim: array.dimensions,
            dtype: *kind,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion::THIS,
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete),
            flags: if array.flags & WRITEABLE == 0 { READ_ONLY } else { 0 },
            dl_tensor,
        };
        let array = Ref::borrowed(object).ok()?.into_handle().cast();
        let exported = Box::into_raw(Box::new(Exported { managed, shape, strides, array }));
        let managed = &raw mut (*exported).managed;
        (*managed).manager_ctx = exported.cast();
        (*managed).dl_tensor.shape = (&raw mut (*exported).shape).cast();
        (*managed).dl_tensor.strides = (&raw mut (*exported).strides).cast();
        Some(managed)
    }
}

/// # Safety
///
/// Attached; `managed` comes from [`export`], and is freed.
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: by contract.
    unsafe {
        let exported = Box::from_raw((*managed).manager_ctx.cast::<Exported>());
        Py_DECREF(exported.array);
    }
}

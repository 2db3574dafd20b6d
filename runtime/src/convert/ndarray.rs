//! Arrays of the crate ndarray over the memory of tensors and buffers, and tensors of arrays.

use super::buffer::Buffer;
use super::element::Element;
use super::extents;
use super::tensor::Tensor;
use super::{FromPython, ToPython};
use crate::device::Device;
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use ndarray::{Array, ArrayView, ArrayViewD, Axis, Dimension, IxDyn, ShapeBuilder};
use std::mem::MaybeUninit;
use std::ptr;

impl Tensor {
    /// The elements in place, whatever their strides: `tensor.as_array::<f32, Ix2>()`. `IxDyn` of
    /// ndarray takes any number of dimensions.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if type or number of dimensions differ, the memory is not the machine's own, or
    /// an element's bit pattern is invalid for `T`.
    ///
    /// # Safety
    ///
    /// Nobody may write the memory while the view lives: neither Python code that has the tensor, nor
    /// another clone.
    pub unsafe fn as_array<T: Element, D: Dimension>(&self) -> Result<ArrayView<'_, T, D>> {
        self.check::<T>()?;
        // SAFETY: type and alignment have been checked; every element that shape and strides reach is
        // memory that the owner keeps alive as long as `self`. The caller sees to it that nobody writes.
        let view =
            unsafe { view::<MaybeUninit<T>>(self.data_ptr().cast(), self.shape(), self.strides()) };
        match view.as_slice() {
            Some(elements) => self.validate(elements)?,
            None => view.iter().try_for_each(|one| self.validate(std::slice::from_ref(one)))?,
        }
        // SAFETY: all elements are valid, as has been checked just now, and `MaybeUninit` has the layout
        // of its type.
        let view = unsafe { view.assume_init() };
        of_dimensions(view)
    }

    /// A copy of the elements as an array.
    ///
    /// # Errors
    ///
    /// As [`Tensor::to_vec`], and [`Error::Convert`] if the number of dimensions differs.
    pub fn to_array<T: Element, D: Dimension>(&self) -> Result<Array<T, D>> {
        let shape: Vec<usize> = self.shape().iter().map(|&extent| extent as usize).collect();
        let refused = |reason: String| refused::<D>(shape.len(), reason);
        let array = Array::from_shape_vec(IxDyn(&shape), self.to_vec()?);
        let array = array.map_err(|error| refused(error.to_string()))?;
        array.into_dimensionality().map_err(|error| refused(error.to_string()))
    }
}

impl Buffer {
    /// The elements in place, as an array of the buffer's shape.
    ///
    /// # Errors
    ///
    /// As [`Buffer::as_slice`], and [`Error::Convert`] if the number of dimensions differs or the items
    /// are not elements of this size.
    ///
    /// # Safety
    ///
    /// As [`Buffer::as_slice`].
    pub unsafe fn as_array<T: Element, D: Dimension>(&self) -> Result<ArrayView<'_, T, D>> {
        // SAFETY: as the caller vouches.
        let elements = unsafe { self.as_slice::<T>() }?;
        let shape: Vec<usize> = self.shape().iter().map(|&extent| extent as usize).collect();
        let view = ArrayViewD::from_shape(IxDyn(&shape), elements);
        of_dimensions(view.map_err(|error| refused::<D>(shape.len(), error.to_string()))?)
    }
}

/// A view with strides of any sign.
///
/// # Safety
///
/// Shape and strides must have passed [`extents::check`]. Every element that they reach from `data` must be
/// a readable, aligned `T` for as long as the view lives, and nobody may write it.
unsafe fn view<'memory, T>(
    data: *const T,
    shape: &[i64],
    strides: &[i64],
) -> ArrayViewD<'memory, T> {
    let extents: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
    if extents::count(shape) == Some(0) {
        // SAFETY: no element is read from there, and the address is aligned.
        return unsafe { ArrayViewD::from_shape_ptr(IxDyn(&extents), ptr::dangling::<T>()) };
    }
    // ndarray takes the lowest address and strides upwards. The axes are turned round afterwards.
    let mut lowest = data;
    let mut upwards = Vec::with_capacity(strides.len());
    for (&extent, &stride) in shape.iter().zip(strides) {
        // The stride of a single element is never walked, and may have any value.
        let stride = if extent == 1 { 0 } else { stride as isize };
        if stride < 0 {
            lowest = lowest.wrapping_offset((extent as isize - 1) * stride);
        }
        upwards.push(stride.unsigned_abs());
    }
    // SAFETY: the same elements as the caller vouches for, counted from the lowest.
    let mut view =
        unsafe { ArrayViewD::from_shape_ptr(IxDyn(&extents).strides(IxDyn(&upwards)), lowest) };
    for (axis, (&extent, &stride)) in shape.iter().zip(strides).enumerate() {
        if extent > 1 && stride < 0 {
            view.invert_axis(Axis(axis));
        }
    }
    view
}

fn of_dimensions<T, D: Dimension>(view: ArrayViewD<'_, T>) -> Result<ArrayView<'_, T, D>> {
    let dimensions = view.ndim();
    view.into_dimensionality().map_err(|error| refused::<D>(dimensions, error.to_string()))
}

fn refused<D: Dimension>(dimensions: usize, reason: String) -> Error {
    let expected = match D::NDIM {
        Some(expected) => format!("an array of {expected} dimensions"),
        None => "an array".to_owned(),
    };
    Error::convert(expected, format!("{dimensions} dimensions"), reason)
}

impl<T: Element, D: Dimension + 'static> From<Array<T, D>> for Tensor {
    /// The array's own memory, with its strides.
    fn from(mut array: Array<T, D>) -> Self {
        let shape: Vec<i64> = array.shape().iter().map(|&extent| extent as i64).collect();
        let strides: Vec<i64> = array.strides().iter().map(|&stride| stride as i64).collect();
        let data = array.as_mut_ptr().cast();
        // SAFETY: the array becomes the owner; its elements do not move with it, and nobody else can
        // reach them. ndarray keeps shape and strides within its memory.
        unsafe {
            Self::from_raw_parts(data, T::DATA_TYPE, Device::CPU, &shape, &strides, false, array)
        }
    }
}

impl<T: Element, D: Dimension> FromPython<'_> for Array<T, D> {
    /// A copy of what [`Tensor`] takes: any object with `__dlpack__`.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        // Python code that could write the elements runs only under the GIL.
        let _attached = object.session().attach();
        Tensor::from_python(object)?.to_array()
    }
}

impl<T: Element, D: Dimension + 'static> ToPython for Array<T, D> {
    /// A copy, as [`Tensor`] becomes a Python object. `Tensor::from(array)` makes none.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        Tensor::from(self.clone()).to_python(session)
    }
}

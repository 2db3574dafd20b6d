//! Shapes and strides, checked where they enter.
//!
//! A shape that an exporter gives is a promise about memory. Impossible shapes (a negative
//! extent, more bytes than there are addresses) are refused here, so that later sums and products
//! of extents cannot overflow.

use smallvec::{SmallVec, smallvec};

/// Extents or strides: in place for as many dimensions as a batch of videos has.
pub(super) type Extents = SmallVec<[i64; 5]>;

/// `number` as a number of dimensions if it is not above `most`: a wrong one is an error, and not a
/// reading of so many extents.
pub(super) fn dimensions(number: i32, most: usize) -> Option<usize> {
    usize::try_from(number).ok().filter(|&number| number <= most)
}

/// The number of elements, or `None` if that number is impossible.
pub(super) fn count(shape: &[i64]) -> Option<usize> {
    // Not by multiplying from the left: a zero behind extents that overflow makes it zero as well.
    if shape.iter().any(|&extent| extent < 0) {
        return None;
    }
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1_usize, |count, &extent| count.checked_mul(usize::try_from(extent).ok()?))
}

/// The strides of elements that lie row by row, `unit` apart; `None` if one is beyond an `i64`.
pub(super) fn row_major(shape: &[i64], unit: i64) -> Option<Extents> {
    let mut strides: Extents = smallvec![unit; shape.len()];
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = strides[dimension].checked_mul(shape[dimension].max(1))?;
    }
    Some(strides)
}

/// Whether the elements lie row by row, `unit` apart, without gaps.
pub(super) fn is_row_major(shape: &[i64], strides: &[i64], unit: i64) -> bool {
    // In 128 bits, which the product of 64 extents could only leave if it were not checked before.
    let mut dense = i128::from(unit);
    count(shape) == Some(0)
        || shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
            let fits = extent == 1 || i128::from(stride) == dense;
            dense = dense.saturating_mul(extent.into());
            fits
        })
}

/// The number of elements of `size` bytes, if memory can have that shape and those strides, which
/// are in units of `unit` bytes; else the reason why it cannot.
pub(super) fn check(
    shape: &[i64],
    strides: &[i64],
    size: usize,
    unit: usize,
) -> Result<usize, String> {
    let too_large = || format!("the shape {shape:?} with strides {strides:?} exceeds all memory");
    let count = match count(shape) {
        Some(count) => count,
        None if shape.iter().any(|&extent| extent < 0) => {
            return Err(format!("its shape {shape:?} has a negative extent"));
        }
        None => return Err(too_large()),
    };
    if count == 0 {
        return Ok(0);
    }
    let limit = isize::MAX as i128;
    let bytes = (count as i128).checked_mul(size as i128);
    // From the lowest element to the highest one.
    let reach = shape.iter().zip(strides).try_fold(0_i128, |reach, (&extent, &stride)| {
        let steps = i128::from(extent - 1) * i128::from(stride.unsigned_abs());
        reach.checked_add(steps.checked_mul(unit as i128)?)
    });
    match (bytes, reach) {
        (Some(bytes), Some(reach)) if bytes <= limit && reach <= limit => Ok(count),
        _ => Err(too_large()),
    }
}

/// Appends every element to `out`, row by row. Strides are in elements. An exporter decides how many there are (a stride may be
/// zero), so callers make room by an allocation that may fail.
///
/// # Safety
///
/// `shape` and `strides` have one length and have passed [`check`]; every element that they reach
/// from `data` is readable and aligned, and what is there is a `T`.
pub(super) unsafe fn copy<T: Copy>(
    data: *const T,
    shape: &[i64],
    strides: &[i64],
    out: &mut Vec<T>,
) {
    let Some(count) = count(shape).filter(|&count| count > 0) else {
        return;
    };
    out.reserve(count);
    if is_row_major(shape, strides, 1) {
        // SAFETY: `count` elements in a row, for which `reserve` has made room.
        unsafe {
            std::ptr::copy_nonoverlapping(data, out.as_mut_ptr().add(out.len()), count);
            out.set_len(out.len() + count);
        }
        return;
    }
    let dimensions = merged(shape, strides);
    let (outer, &(run, step)) = match dimensions.split_last() {
        Some((last, outer)) => (outer, last),
        None => (&[][..], &(1, 1)),
    };
    let mut index = vec![0_usize; outer.len()];
    let mut row = data;
    loop {
        let end = out.len();
        // SAFETY: `reserve` has made room for all elements, of which this run is the next; `row` is
        // the address of the run's first element, and shape and strides reach the others. The reads
        // make no reference.
        unsafe {
            let place = out.as_mut_ptr().add(end);
            if step == 1 {
                std::ptr::copy_nonoverlapping(row, place, run);
            } else {
                for element in 0..run {
                    place.add(element).write(row.wrapping_offset(element as isize * step).read());
                }
            }
            out.set_len(end + run);
        }
        // The next run: the last dimension that has not come to its end goes one step on, and those
        // behind it go back to their beginnings.
        let mut dimension = outer.len();
        loop {
            let Some(next) = dimension.checked_sub(1) else {
                return;
            };
            dimension = next;
            let (extent, stride) = outer[dimension];
            index[dimension] += 1;
            row = row.wrapping_offset(stride);
            if index[dimension] < extent {
                break;
            }
            row = row.wrapping_offset((extent as isize).wrapping_mul(stride).wrapping_neg());
            index[dimension] = 0;
        }
    }
}

/// Extents and strides in as few dimensions as walk the same elements in the same order: without
/// those of one element, and with neighbours joined where the outer one goes on where the inner one
/// ends.
fn merged(shape: &[i64], strides: &[i64]) -> Vec<(usize, isize)> {
    let mut dimensions: Vec<(usize, isize)> = Vec::with_capacity(shape.len());
    for (&extent, &stride) in shape.iter().zip(strides).filter(|&(&extent, _)| extent != 1) {
        // Both were checked to be addressable.
        let (extent, stride) = (extent as usize, stride as isize);
        match dimensions.last_mut() {
            Some((outer, outer_stride))
                if Some(*outer_stride) == (extent as isize).checked_mul(stride) =>
            {
                (*outer, *outer_stride) = (*outer * extent, stride);
            }
            _ => dimensions.push((extent, stride)),
        }
    }
    dimensions
}

#[cfg(test)]
mod tests {
    use super::{check, copy, count, is_row_major, merged, row_major};

    #[test]
    fn impossible_shapes_are_told_from_empty_ones() {
        assert_eq!(count(&[]), Some(1));
        assert_eq!(count(&[2, 3]), Some(6));
        assert_eq!(count(&[i64::MAX, i64::MAX, 0]), Some(0));
        assert_eq!(count(&[i64::MAX, i64::MAX]), None);
        assert_eq!(count(&[-2, -3]), None);
        assert_eq!(row_major(&[2, 3, 4], 8).as_deref(), Some(&[96, 32, 8][..]));
        assert_eq!(row_major(&[0, i64::MAX, i64::MAX], 1), None);
        assert_eq!(check(&[3, 2], &[1, 3], 4, 4), Ok(6));
        assert_eq!(check(&[3], &[-1], 4, 4), Ok(3));
        assert!(check(&[-1], &[1], 4, 4).unwrap_err().contains("negative"));
        assert!(check(&[i64::MAX], &[1], 4, 4).unwrap_err().contains("exceeds"));
        assert!(check(&[2, 2], &[i64::MAX, i64::MIN], 4, 4).unwrap_err().contains("exceeds"));
        assert!(is_row_major(&[2, 1, 3], &[3, 77, 1], 1));
        assert!(!is_row_major(&[2, 3], &[1, 2], 1));
    }

    #[test]
    fn every_order_of_dimensions_is_copied_as_the_indices_say() {
        let memory: Vec<u16> = (0..1000).collect();
        let cases: [(&[i64], &[i64], isize); 8] = [
            (&[], &[], 5),
            (&[4, 5], &[5, 1], 0),
            (&[4, 5], &[1, 4], 0),
            (&[4, 5, 6], &[60, 12, 2], 0),
            (&[4, 1, 6], &[6, 500, 1], 0),
            (&[3, 4, 5], &[0, 5, 1], 7),
            (&[4, 5], &[-5, -1], 19),
            (&[2, 3, 2, 3], &[100, 20, 6, 2], 1),
        ];
        for (shape, strides, start) in cases {
            let mut expected = Vec::new();
            let total = count(shape).unwrap();
            for number in 0..total {
                let mut rest = number as i64;
                let mut offset = start;
                for dimension in (0..shape.len()).rev() {
                    offset += (rest % shape[dimension] * strides[dimension]) as isize;
                    rest /= shape[dimension];
                }
                expected.push(memory[offset as usize]);
            }
            let mut copied = vec![9_u16];
            // SAFETY: the cases stay within the vector.
            unsafe { copy(memory.as_ptr().offset(start), shape, strides, &mut copied) };
            assert_eq!(copied[1..], expected, "{shape:?} {strides:?}");
        }
        assert_eq!(merged(&[4, 1, 5, 6], &[30, 7, 6, 1]), [(120, 1)]);
    }
}

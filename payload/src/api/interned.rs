//! Names that were used before, as the `str` objects that dictionaries find by identity.
//!
//! A host calls the same methods, attributes and keywords again and again. To make a `str` of a name and to intern it takes
//! longer than most calls. So the last names stay here, and the last tuples of keyword names. A name that finds its place
//! taken replaces the other one: the number of references that are kept is fixed.

use crate::api::fault::Outcome;
use crate::api::reference::Ref;
use crate::api::under_gil::UnderGil;
use crate::table::Text;
use pyo3_ffi::{PyObject, PyTuple_GetItem, PyTuple_Size, PyUnicode_InternInPlace};
use std::ptr;

/// How many names are kept.
const NAMES: usize = 512;

/// How many tuples of names.
const TUPLES: usize = 64;

/// Longer names are made anew each time.
const LONGEST: usize = 64;

/// As many keywords are looked up as a tuple at most.
const MOST: usize = 16;

/// A name, and its UTF-8, which the object keeps.
#[derive(Clone, Copy)]
struct Name {
    object: *mut PyObject,
    text: Text,
}

// The kept names and tuples are owned references, which live as long as the interpreter. Nothing here runs Python code or
// releases the GIL between two looks at a place that belong together. Dropping a replaced `str` or tuple of `str` runs no
// code either.

static KEPT_NAMES: UnderGil<[Name; NAMES]> =
    UnderGil::new([Name { object: ptr::null_mut(), text: Text::new("") }; NAMES]);

static KEPT_TUPLES: UnderGil<[*mut PyObject; TUPLES]> = UnderGil::new([ptr::null_mut(); TUPLES]);

/// An interned `str` for a name.
///
/// # Safety
///
/// The thread is attached, and the view is valid.
pub(crate) unsafe fn name_of(text: Text) -> Outcome<Ref> {
    // SAFETY: by contract.
    let bytes = unsafe { text.bytes() };
    let place = place_of(bytes);
    // SAFETY: attached; a name that is kept has its text.
    unsafe {
        let kept = (*KEPT_NAMES.as_ptr())[place];
        if !kept.object.is_null() && kept.text.bytes() == bytes {
            return Ref::borrowed(kept.object);
        }
        make(bytes, place)
    }
}

/// A place for a name: from its first and last eight bytes, and its length.
fn place_of(bytes: &[u8]) -> usize {
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
    };
    let mixed = first ^ last.rotate_left(23) ^ (bytes.len() as u64).rotate_left(51);
    // The golden ratio's multiple spreads what differs in few bits (Knuth, The Art of Computer Programming, 6.4).
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - NAMES.ilog2())) as usize
}

/// # Safety
///
/// Attached.
#[cold]
unsafe fn make(bytes: &[u8], place: usize) -> Outcome<Ref> {
    // SAFETY: attached; interning replaces one owned reference by another. The text is that of the object, which lives as
    // long as it is kept.
    unsafe {
        let mut object = Ref::text(bytes)?.into_handle().cast::<PyObject>();
        PyUnicode_InternInPlace(&mut object);
        let object = Ref::owned(object)?;
        if bytes.len() <= LONGEST {
            let Some(text) = object.utf8().map(Text::new) else { return Ok(object) };
            let kept = Name { object: Ref::borrowed(object.as_ptr())?.into_handle().cast(), text };
            let before = std::mem::replace(&mut (*KEPT_NAMES.as_ptr())[place], kept);
            drop(Ref::owned(before.object));
        }
        Ok(object)
    }
}

/// A tuple of names.
///
/// # Safety
///
/// Attached; `count` valid views.
pub(crate) unsafe fn names_of(names: *const Text, count: usize) -> Outcome<Ref> {
    // SAFETY: by contract. The tuple that is kept is owned.
    unsafe {
        let name = |index: usize| name_of(*names.add(index));
        if count > MOST {
            return Ref::tuple(count, (0..count).map(name));
        }
        let mut items: [Option<Ref>; MOST] = [const { None }; MOST];
        let mut mixed = count;
        for (index, item) in items.iter_mut().enumerate().take(count) {
            let name = name(index)?;
            mixed = mixed.rotate_left(7) ^ (name.as_ptr().addr() >> 4);
            *item = Some(name);
        }
        let place = (mixed ^ (mixed >> 12)) % TUPLES;
        let place: *mut *mut PyObject = KEPT_TUPLES.as_ptr().cast::<*mut PyObject>().add(place);
        if !(*place).is_null() && is_tuple_of(*place, &items[..count]) {
            return Ref::borrowed(*place);
        }
        let tuple = Ref::tuple(count, items.into_iter().flatten().map(Ok))?;
        // A new tuple may have set off a collection of garbage, and that Python code which came here: the place is looked at
        // again.
        let before = place.replace(Ref::borrowed(tuple.as_ptr())?.into_handle().cast());
        drop(Ref::owned(before));
        Ok(tuple)
    }
}

/// Whether a tuple has these very items.
///
/// # Safety
///
/// Attached; `tuple` is a live one.
unsafe fn is_tuple_of(tuple: *mut PyObject, items: &[Option<Ref>]) -> bool {
    // SAFETY: by contract; the positions are within its size.
    unsafe {
        PyTuple_Size(tuple).cast_unsigned() == items.len()
            && items.iter().enumerate().all(|(index, item)| {
                let item = item.as_ref().map_or(ptr::null_mut(), Ref::as_ptr);
                PyTuple_GetItem(tuple, index.cast_signed()) == item
            })
    }
}

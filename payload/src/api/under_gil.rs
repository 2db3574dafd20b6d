//! Statics that only attached threads use: the GIL is their lock.

use std::cell::UnsafeCell;

/// A value that an attached thread may read and change.
pub(crate) struct UnderGil<T>(UnsafeCell<T>);

// SAFETY: the value is reached by a pointer alone, and each use of that is by an attached thread, one at a time.
unsafe impl<T> Sync for UnderGil<T> {}

impl<T> UnderGil<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// To be dereferenced by attached threads, and not across a call that may release the GIL.
    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

//! Memory of the host that Python sees through a `memoryview`.

use super::memory_owner::{Lent, MemoryOwner};
use crate::Result;
use crate::object::Object;
use crate::payload::table::Loan;
use crate::session::Session;
use std::ffi::c_int;

impl Session {
    /// A read-only `memoryview` over bytes that `owner` keeps; dropped when Python lets go, by
    /// whichever thread that is.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`](crate::Error::Python).
    pub fn lend<O>(&self, owner: O) -> Result<Object<'_>>
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        // The owner first moves to where it stays: an array would take its bytes along.
        let owner = Box::new(owner);
        let bytes = (*owner).as_ref();
        let (data, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        // SAFETY: the bytes lie in the box or in what it owns, and Python does not write them.
        unsafe { self.lend_raw(data, len, true, owner) }
    }

    /// A writable `memoryview` over bytes that become Python's.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`](crate::Error::Python).
    pub fn give(&self, bytes: impl Into<Box<[u8]>>) -> Result<Object<'_>> {
        let mut bytes = bytes.into();
        let (data, len) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the boxed bytes do not move with their box, and nothing in Rust uses them.
        unsafe { self.lend_raw(data, len, false, bytes) }
    }

    /// A `memoryview` over memory that `owner` keeps alive.
    ///
    /// A [`Buffer`](crate::Buffer) or [`Tensor`](crate::Tensor) of this interpreter may be the owner.
    /// An owner that contains one, or a session, or the pool, keeps the interpreter for as long as
    /// Python keeps the view, also when nobody else does.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`](crate::Error::Python).
    ///
    /// # Safety
    ///
    /// The memory must be valid until `owner` is dropped, which any thread may do; unless
    /// `read_only`, Python may write it, and nothing in Rust may hold a reference to it meanwhile.
    pub unsafe fn lend_raw<O: Send + Sync + 'static>(
        &self,
        data: *mut u8,
        len: usize,
        read_only: bool,
        owner: O,
    ) -> Result<Object<'_>> {
        // SAFETY: as the caller vouches.
        unsafe { self.lend_kept(data, len, read_only, MemoryOwner::of(owner)) }
    }

    /// # Safety
    ///
    /// As [`Session::lend_raw`].
    pub(super) unsafe fn lend_kept(
        &self,
        data: *mut u8,
        len: usize,
        read_only: bool,
        keeper: MemoryOwner,
    ) -> Result<Object<'_>> {
        let loan = Loan {
            data,
            len,
            read_only: c_int::from(read_only),
            context: Lent::context(keeper.lent_to(self), self),
            drop: Lent::<MemoryOwner>::release,
        };
        self.object(|inner, out, sink| {
            // SAFETY: `object` attaches; the payload drops the loan once, also on failure.
            unsafe { (inner.table().lend)(&loan, out, sink) }
        })
    }
}

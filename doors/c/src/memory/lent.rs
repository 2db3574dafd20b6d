//! Memory that stays where it is until whoever got it gives it back.

use crate::boundary::{Failure, Result, given, guarded, hz_error, hz_status, slot};
use crate::interpreters::{hz_session, object_in};
use crate::values::hz_object;
use runtime::{Buffer, Object, Session};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// Called once when memory that was lent is no longer used, with the context that was given with it. It may be called
/// by any thread, also inside of the call that lends the memory. It must return soon, must not throw, and must not call
/// functions of this library on a session. A runtime that such a thread cannot enter, or that may end before the
/// interpreters do, takes hz_returns_release instead of a function of its own.
pub type hz_release = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Memory of the application's that is lent to Python. Its drop gives it back.
pub(crate) struct Lent {
    release: hz_release,
    context: *mut c_void,
}

impl Lent {
    pub(crate) fn new(release: hz_release, context: *mut c_void) -> Self {
        Self { release, context }
    }
}

// SAFETY: the header says that any thread may call the function.
unsafe impl Send for Lent {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: called once, as the header says.
            unsafe { release(self.context) };
        }
    }
}

/// A memoryview over `len` bytes at `data`, without a copy. Unless `read_only`, Python may write them. The memory stays
/// where it is until `release` is called with `context`: when Python no longer uses it, or at once if this function
/// fails. `release` may be NULL for memory that stays for ever. The caller owns `view`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_lend(
    session: Option<&hz_session>,
    data: *mut c_void,
    len: usize,
    read_only: bool,
    release: hz_release,
    context: *mut c_void,
    view: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // Before anything can fail.
    let lent = Lent::new(release, context);
    guarded!(error, {
        let view = slot(view, "view")?;
        let (session, data) = (given(session, "session")?, memory_at(data, len)?);
        object_in(Some(session), view, |session| session.lend_raw(data, len, read_only, lent))
    })
}

/// Memory that goes without a copy.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hz_memory {
    /// The first byte.
    pub data: *mut c_void,
    /// The number of bytes.
    pub len: usize,
    /// Whether it must not be written.
    pub read_only: bool,
    /// Called once with `context`, by any thread, when the memory is no longer used. The memory stays until then. NULL if
    /// it stays for ever.
    pub release: hz_release,
    /// For `release`.
    pub context: *mut c_void,
}

/// The address of memory that may be empty.
pub(crate) fn memory_at(data: *mut c_void, len: usize) -> Result<*mut u8> {
    match (data.is_null(), len) {
        (_, 0) => Ok(ptr::dangling_mut()),
        (true, _) => Err(Failure::argument("data is NULL")),
        (false, len) if isize::try_from(len).is_err() => {
            Err(Failure::argument(format!("data cannot have {len} bytes")))
        }
        (false, _) => Ok(data.cast()),
    }
}

/// Memory that stays where it is until this is dropped.
pub(crate) enum KeptMemory {
    /// An interpreter's.
    Exported(Buffer),
    /// The program's.
    Lent(LentMemory),
}

pub(crate) struct LentMemory {
    data: *mut u8,
    len: usize,
    read_only: bool,
    owner: Arc<Lent>,
}

// SAFETY: the owner keeps the memory for all threads. It is passed on, and not used here.
unsafe impl Send for LentMemory {}
// SAFETY: as above.
unsafe impl Sync for LentMemory {}

impl KeptMemory {
    /// # Safety
    ///
    /// The memory stays where it is until `release` is called, which any thread may do.
    pub(crate) unsafe fn lent(memory: &hz_memory) -> Self {
        let &hz_memory { data, len, read_only, release, context } = memory;
        let data = if len == 0 { ptr::dangling_mut() } else { data.cast() };
        let owner = Arc::new(Lent::new(release, context));
        Self::Lent(LentMemory { data, len, read_only, owner })
    }

    /// The first byte, the number of bytes, and whether they must not be written.
    pub(crate) fn extent(&self) -> (*mut u8, usize, bool) {
        match self {
            Self::Exported(buffer) => (buffer.data_ptr(), buffer.len(), buffer.is_read_only()),
            Self::Lent(lent) => (lent.data, lent.len, lent.read_only),
        }
    }

    /// A memoryview in an interpreter, which keeps the memory.
    pub(crate) fn to_python<'s>(&self, session: &'s Session) -> runtime::Result<Object<'s>> {
        match self {
            Self::Exported(buffer) => session.object_from(buffer),
            Self::Lent(LentMemory { data, len, read_only, owner }) => {
                // SAFETY: the lender of the memory vouches for it until the owner is dropped.
                unsafe { session.lend_raw(*data, *len, *read_only, owner.clone()) }
            }
        }
    }
}

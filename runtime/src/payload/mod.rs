//! The host's side of the boundary: the embedded payloads, and the tables.
//!
//! The crate `hydrozoa-payload`, which both sides compile, defines what a payload may do and what it
//! promises.

mod guarded;
mod host;
pub(crate) mod sealed;

pub(crate) use guarded::guarded;
pub(crate) use host::{Owner, Sink};
pub(crate) use hydrozoa_payload::table;

use crate::{Error, Result};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use table::{EntryPoint, Handle, PayloadTable};

/// Asks a loaded payload for its table, and checks it.
///
/// # Safety
///
/// `entry` must be the address of [`table::ENTRY`] in a payload made from this source for Python
/// 3.`minor`, whose constructors have run.
pub(crate) unsafe fn table_of(entry: *const c_void, minor: u8) -> Result<PayloadTable> {
    // SAFETY: the caller vouches that the address is that of a function of this type.
    let entry: EntryPoint = unsafe { std::mem::transmute::<*const c_void, EntryPoint>(entry) };
    let mut table = MaybeUninit::<PayloadTable>::uninit();
    // SAFETY: the payload writes `out` only after it has found the host's header to match its own
    // definition of both tables, and `HOST` lives as long as the process.
    let differs = unsafe { entry(&raw const host::HOST, table.as_mut_ptr()) };
    mismatch(differs, minor, "the host's table")?;
    // SAFETY: the entry returned 0, so it has written the whole table.
    let table = unsafe { table.assume_init() };
    mismatch(table.header.matches::<PayloadTable>(), minor, "the payload's table")?;
    Ok(table)
}

/// Gives a reference up, on any thread: at once if that is attached, else when a thread enters.
///
/// # Safety
///
/// The reference is owned. The interpreter of the table has started, and is kept alive.
#[inline]
pub(crate) unsafe fn release(table: &PayloadTable, object: Handle) {
    // SAFETY: by contract.
    unsafe {
        if (table.put_aside)(object) == 0 {
            (table.release)(object);
        }
    }
}

fn mismatch(differs: c_int, minor: u8, which: &str) -> Result<()> {
    let field = match differs {
        0 => return Ok(()),
        1 => "magic number",
        2 => "version",
        _ => "size",
    };
    Err(Error::Payload {
        minor,
        reason: format!("the {field} of {which} differs: build the whole workspace again"),
    })
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use crate::embedded_payloads::get as image;

    #[test]
    fn a_python_without_a_payload_is_named_with_those_that_have_one() {
        let error = image(9).unwrap_err();
        assert!(matches!(error, Error::Payload { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("payload for Python 3.9: this build serves Python 3.10 to 3."));
        assert!(text.ends_with("; name one of these"), "{text}");
    }
}

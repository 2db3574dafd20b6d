//! The host's side of the boundary: the embedded payloads, and the tables.
//!
//! The crate `hydrozoa-payload`, which both sides compile, defines what a payload may do and what it
//! promises.

mod embedded;
mod host;

pub(crate) use embedded::{SUPPORTED, image};
pub(crate) use host::{Owner, Sink};
pub(crate) use hydrozoa_payload::table;

use crate::{Error, Result};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use table::{Entry, PayloadTable};

/// Asks a loaded payload for its table, and checks it.
///
/// # Safety
///
/// `entry` must be the address of [`table::ENTRY`] in a payload made from this source for Python
/// 3.`minor`, whose constructors have run.
pub(crate) unsafe fn table_of(entry: *const c_void, minor: u8) -> Result<PayloadTable> {
    // SAFETY: the caller vouches that the address is that of a function of this type.
    let entry: Entry = unsafe { std::mem::transmute::<*const c_void, Entry>(entry) };
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

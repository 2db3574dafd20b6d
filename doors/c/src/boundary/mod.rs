//! Where C calls come in: their arguments, the places for their results, and their failures.

mod error;
mod failure;
mod guard;
mod pointers;
mod status;

pub use error::hz_error;
pub(crate) use error::text as c_text;
pub(crate) use failure::{Failure, Result};
pub(crate) use guard::{guard, guarded, reported};
pub(crate) use pointers::{
    ResultSlot, array, copied, fill, free, given, not_null, os_text, path, slot, slot_or_none,
    text, write,
};
pub use status::hz_status;

//! Values on their way to Python and back.

mod bytes;
mod object_handle;
mod plain_value;
mod value;

pub use bytes::hz_bytes;
pub use object_handle::hz_object;
pub use plain_value::hz_plain;
pub(crate) use value::{Argument, Arguments};
pub use value::{hz_keyword, hz_value};

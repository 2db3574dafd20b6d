//! Objects and packages that every interpreter of a pool can use, and the numbers by which its Python code finds them.

mod movable;
mod numbered;
mod package;

pub(crate) use movable::MOVABLES;
pub use movable::hz_movable;
pub(crate) use numbered::{Numbered, Registry};
pub(crate) use package::PACKAGES;
pub use package::hz_package;

//! The sealed file: an executable with the parts of an application behind it.
//!
//! | file | is |
//! |---|---|
//! | `place` | the header in the executable's data |
//! | `base` | the executable, before it is sealed |
//! | `layout` | the places of members |
//! | `write`, `output`, `members` | the writing |
//! | `manifest`, `description`, `path` | the list of all that is inside |
//! | `tail`, `symbols`, `functions`, `strings`, `sections`, `build_id` | names for profilers and debuggers |
//! | `open`, `record`, `verify`, `extract` | the reading, by tools |
//! | `show`, `kind`, `sizes` | what is inside, as text |
//! | `cyclonedx`, `licence` | the same as a bill of materials |
//! | `elf`, `digest` | tables and hashes of files |

mod base;
mod build_id;
mod cyclonedx;
#[cfg(test)]
mod damage;
mod description;
mod digest;
mod elf;
mod error;
mod extract;
mod functions;
mod kind;
mod layout;
mod licence;
mod manifest;
mod members;
mod open;
mod output;
mod path;
mod place;
mod record;
mod sections;
mod show;
mod sizes;
mod strings;
mod symbols;
mod tail;
#[cfg(test)]
mod trial;
mod verify;
mod write;

pub(crate) use self::description::{Description, Distribution, SystemLibrary};
pub use self::error::Error;
pub(crate) use self::layout::Layout;
pub(crate) use self::members::Placed;
pub use self::open::Sealed;
pub(crate) use self::write::write;

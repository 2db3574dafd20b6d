//! Seals applications: one executable file carries a Python, its packages and its native libraries, and reads nothing else.

mod collect;
mod file;
mod member;
mod sealer;

pub use collect::{CollectError, Step};
pub use file::{Error as FileError, Sealed};
pub use sealer::{Report, SealError, Sealer};

//! One request on its way to a model and back, by whichever protocol it has come.

mod classes;
mod responses;
pub(crate) mod shared_memory;
pub(crate) mod trace;

pub(crate) use classes::classes;
pub(crate) use responses::{Responses, Running, Single, expected_one};

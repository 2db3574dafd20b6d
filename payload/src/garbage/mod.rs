//! Collections of garbage that the host postpones, and objects that it hides from them.

pub(crate) mod during_imports;
pub(crate) mod frozen_objects;

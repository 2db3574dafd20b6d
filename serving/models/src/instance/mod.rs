//! Instances: the thread that keeps each one, how they are, and their own answers on readiness.

mod health;
mod keeper;
mod readiness;
mod restarts;

pub(crate) use health::{Condition, Health};
pub(crate) use keeper::Runs;
pub(crate) use readiness::{PATIENCE, Readiness};
pub(crate) use restarts::Restarts;
